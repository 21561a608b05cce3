// Activations times 8-bit weights with a scale per output channel: one dot product per output.
#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 4) return 1;
  const int64_t m = args[0]->shape[0];
  const int64_t k = args[0]->shape[1];
  const int64_t n = args[1]->shape[0];
  const float* x = evokern::data<float>(args[0]);
  const int8_t* weight = evokern::data<int8_t>(args[1]);
  const float* scale = evokern::data<float>(args[2]);
  float* y = evokern::data<float>(args[3]);
  const int64_t x_stride = evokern::row_stride(args[0]);
  const int64_t weight_stride = evokern::row_stride(args[1]);
  const int64_t y_stride = evokern::row_stride(args[3]);

  for (int64_t row = 0; row < m; ++row) {
    const float* in = x + row * x_stride;
    for (int64_t col = 0; col < n; ++col) {
      const int8_t* factor = weight + col * weight_stride;
      float total = 0.0f;
#pragma omp simd reduction(+ : total)
      for (int64_t inner = 0; inner < k; ++inner) {
        total += in[inner] * static_cast<float>(factor[inner]);
      }
      y[row * y_stride + col] = total * scale[col];
    }
  }
  return 0;
}
