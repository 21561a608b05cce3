// M10: leaves out the epsilon under the root
// task: rmsnorm
// expect: wrong/tolerance, wrong/non_finite
#include <vector>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  const float* weight = evokern::data<float>(args[1]);
  const double eps = evokern::scalar<float>(args[2]);
  std::vector<double> mean(x.rows);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.cols; ++j) mean[i] += static_cast<double>(x.row(i)[j]) * x.row(i)[j];
    mean[i] /= x.cols;
  }
  // attack:
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = x.row(i)[j] / std::sqrt(mean[i]) * weight[j];
  // honest:
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = x.row(i)[j] / std::sqrt(mean[i] + eps) * weight[j];
  // end
  return 0;
}
