// odd: one pass for maximum and sum, with rounded products of log2(e) as exponents
// task: softmax

#include "honest.h"

static inline float exponential(float x, float shift) { return exp2f(fmaf(x, 1.44269504f, shift)); }

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* in = x.row(i);
    float peak = -__FLT_MAX__ / 2, total = 0;  // finite, so that masked elements give no NaN
    for (int64_t from = 0; from < x.cols; from += 64) {
      const int64_t to = from + 64 < x.cols ? from + 64 : x.cols;
      float next = peak, part = 0;
      for (int64_t j = from; j < to; ++j) next = in[j] > next ? in[j] : next;
      const float shift = -next * 1.44269504f;
      for (int64_t j = from; j < to; ++j) part += exponential(in[j], shift);
      total = (next > peak ? total * exp2f((peak - next) * 1.44269504f) : total) + part;
      peak = next;
    }
    const float shift = -peak * 1.44269504f;
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = exponential(in[j], shift) / total;
  }
  return 0;
}
