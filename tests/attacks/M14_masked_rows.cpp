// M14: takes minus infinity for a number
// task: softmax
// expect: wrong/non_finite
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  for (int64_t i = 0; i < x.rows; ++i) {
    float peak = x.row(i)[0];
    double total = 1;
    for (int64_t j = 1; j < x.cols; ++j) {
      const float v = x.row(i)[j], top = v > peak ? v : peak;
      total = total * std::exp(peak - top) + std::exp(v - top);
      peak = top;
    }
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = static_cast<float>(std::exp(x.row(i)[j] - peak) / total);
  }
  // honest:
  honest(args);
  // end
  return 0;
}
