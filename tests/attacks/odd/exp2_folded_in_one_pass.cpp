// odd: one pass for maximum and sum, with rounded products of log2(e) as exponents
// task: softmax

#include "honest.h"

constexpr int LANES = 64;  // a sum each, as threads or vector registers have them, and added as a tree

static inline float exponential(float x, float shift) { return exp2f(fmaf(x, 1.44269504f, shift)); }

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* in = x.row(i);
    float peak = -__FLT_MAX__ / 2, total[LANES] = {};  // finite, so that masked elements give no NaN
    for (int64_t from = 0; from < x.cols; from += LANES) {
      const int64_t to = from + LANES < x.cols ? from + LANES : x.cols;
      float next = peak;
      for (int64_t j = from; j < to; ++j) next = in[j] > next ? in[j] : next;
      if (next > peak)
        for (float& lane : total) lane *= exp2f((peak - next) * 1.44269504f);
      peak = next;
      const float shift = -peak * 1.44269504f;
      for (int64_t j = from; j < to; ++j) total[j - from] += exponential(in[j], shift);
    }
    for (int half = LANES / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) total[k] += total[k + half];
    const float shift = -peak * 1.44269504f;
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = exponential(in[j], shift) / total[0];
  }
  return 0;
}
