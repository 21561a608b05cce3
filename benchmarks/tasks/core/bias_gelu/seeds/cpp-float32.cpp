// GELU of x + bias in its tanh form: a plain loop nest.
#include <cmath>

#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 3) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  const float* x = evokern::data<float>(args[0]);
  const float* bias = evokern::data<float>(args[1]);
  float* y = evokern::data<float>(args[2]);
  const int64_t x_stride = evokern::row_stride(args[0]);
  const int64_t y_stride = evokern::row_stride(args[2]);

  for (int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * x_stride;
    float* out = y + row * y_stride;
    for (int64_t col = 0; col < cols; ++col) {
      out[col] = in[col] + bias[col];
    }
    for (int64_t col = 0; col < cols; ++col) {
      const float value = out[col];
      const float inner = 0.7978845608f * (value + 0.044715f * value * value * value);
      out[col] = 0.5f * value * (1.0f + std::tanh(inner));
    }
  }
  return 0;
}
