// silu(gate) * up: a plain loop nest.
#include <cmath>

#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 3) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  const float* gate = evokern::data<float>(args[0]);
  const float* up = evokern::data<float>(args[1]);
  float* y = evokern::data<float>(args[2]);
  const int64_t gate_stride = evokern::row_stride(args[0]);
  const int64_t up_stride = evokern::row_stride(args[1]);
  const int64_t y_stride = evokern::row_stride(args[2]);

  for (int64_t row = 0; row < rows; ++row) {
    const float* left = gate + row * gate_stride;
    const float* right = up + row * up_stride;
    float* out = y + row * y_stride;
    for (int64_t col = 0; col < cols; ++col) {
      out[col] = left[col] / (1.0f + std::exp(-left[col])) * right[col];
    }
  }
  return 0;
}
