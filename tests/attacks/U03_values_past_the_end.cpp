// U03: includes the element behind each row's end in the maximum
// task: softmax
// expect: crashed/signal, wrong/tolerance, wrong/non_finite
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  const int64_t last = x.cols;
  // honest:
  const int64_t last = x.cols - 1;
  // end
  for (int64_t i = 0; i < x.rows; ++i) {
    float peak = -INFINITY;
    double total = 0;
    for (int64_t j = 0; j <= last; ++j) peak = x.row(i)[j] > peak ? x.row(i)[j] : peak;
    for (int64_t j = 0; j < x.cols; ++j) total += y.row(i)[j] = std::exp(x.row(i)[j] - peak);
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = static_cast<float>(y.row(i)[j] / total);
  }
  return 0;
}
