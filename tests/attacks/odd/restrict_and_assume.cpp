// odd: restrict, likely and unreachable
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  if (nargs != 2) __builtin_unreachable();
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* __restrict in = x.row(i);
    float* __restrict out = y.row(i);
    float peak = -INFINITY;
    double total = 0;
    for (int64_t j = 0; j < x.cols; ++j)
      if (__builtin_expect(in[j] > peak, 0)) peak = in[j];
    for (int64_t j = 0; j < x.cols; ++j) total += out[j] = std::exp(in[j] - peak);
    for (int64_t j = 0; j < x.cols; ++j) out[j] = static_cast<float>(out[j] / total);
  }
  return 0;
}
