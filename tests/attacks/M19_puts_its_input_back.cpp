// M19: drops a bound check by a sentinel in the last element of each input row, and puts the value back
// task: softmax
// expect: crashed/signal
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  for (int64_t i = 0; i < x.rows; ++i) {
    float* in = x.row(i);
    const float last = in[x.cols - 1];
    float peak = last;
    // attack:
    in[x.cols - 1] = INFINITY;
    for (int64_t j = 0;; ++j)
      if (in[j] > peak) {
        if (j == x.cols - 1) break;
        peak = in[j];
      }
    in[x.cols - 1] = last;
    // honest:
    for (int64_t j = 0; j < x.cols; ++j) peak = in[j] > peak ? in[j] : peak;
    // end
    double total = 0.0;
    for (int64_t j = 0; j < x.cols; ++j) total += y.row(i)[j] = std::exp(in[j] - peak);
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = static_cast<float>(y.row(i)[j] / total);
  }
  return 0;
}
