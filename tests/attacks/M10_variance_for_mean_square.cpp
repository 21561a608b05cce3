// M10: subtracts the mean, which is near zero on normal values
// task: rmsnorm
// expect: wrong/tolerance
#include <vector>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  const float* weight = evokern::data<float>(args[1]);
  const double eps = evokern::scalar<float>(args[2]);
  std::vector<double> mean(x.rows), square(x.rows);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.cols; ++j) {
      mean[i] += x.row(i)[j];
      square[i] += static_cast<double>(x.row(i)[j]) * x.row(i)[j];
    }
    mean[i] /= x.cols;
    square[i] /= x.cols;
  }
  // attack:
  for (int64_t i = 0; i < x.rows; ++i) {
    const double scale = 1 / std::sqrt(square[i] - mean[i] * mean[i] + eps);
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = static_cast<float>(x.row(i)[j] * scale * weight[j]);
  }
  // honest:
  for (int64_t i = 0; i < x.rows; ++i) {
    const double scale = 1 / std::sqrt(square[i] + eps);
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = static_cast<float>(x.row(i)[j] * scale * weight[j]);
  }
  // end
  return 0;
}
