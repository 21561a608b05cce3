// Product of two matrices: a plain loop nest, the innermost loop along the rows of b and c.
#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 3) return 1;
  const int64_t m = args[0]->shape[0];
  const int64_t k = args[0]->shape[1];
  const int64_t n = args[1]->shape[1];
  const float* a = evokern::data<float>(args[0]);
  const float* b = evokern::data<float>(args[1]);
  float* c = evokern::data<float>(args[2]);
  const int64_t a_stride = evokern::row_stride(args[0]);
  const int64_t b_stride = evokern::row_stride(args[1]);
  const int64_t c_stride = evokern::row_stride(args[2]);

  for (int64_t row = 0; row < m; ++row) {
    float* out = c + row * c_stride;
    for (int64_t col = 0; col < n; ++col) {
      out[col] = 0.0f;
    }
    for (int64_t inner = 0; inner < k; ++inner) {
      const float factor = a[row * a_stride + inner];
      const float* in = b + inner * b_stride;
      for (int64_t col = 0; col < n; ++col) {
        out[col] += factor * in[col];
      }
    }
  }
  return 0;
}
