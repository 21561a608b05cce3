// odd: one pass for maximum and sum, rescaled as the maximum grows
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  for (int64_t i = 0; i < x.rows; ++i) {
    float peak = -__FLT_MAX__;  // finite, so that masked elements give no NaN
    double total = 0;
    for (int64_t j = 0; j < x.cols; ++j) {
      const float v = x.row(i)[j];
      if (v > peak) {
        total = total * std::exp(static_cast<double>(peak) - v) + 1;
        peak = v;
      } else {
        total += std::exp(v - peak);
      }
    }
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = static_cast<float>(std::exp(x.row(i)[j] - peak) / total);
  }
  return 0;
}
