// odd: folds log2(e) into a multiply-add whose addend is a rounded maximum, as fused attention does
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  const float log2e = 1.44269504f;
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* in = x.row(i);
    float* out = y.row(i);
    float peak = -INFINITY;
    for (int64_t j = 0; j < x.cols; ++j) peak = in[j] > peak ? in[j] : peak;
    const float shift = -peak * log2e;
    double total = 0.0;
    for (int64_t j = 0; j < x.cols; ++j) total += out[j] = exp2f(fmaf(in[j], log2e, shift));
    for (int64_t j = 0; j < x.cols; ++j) out[j] = static_cast<float>(out[j] / total);
  }
  return 0;
}
