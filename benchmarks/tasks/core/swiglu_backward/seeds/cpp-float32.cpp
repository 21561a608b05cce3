// Gradients of silu(gate) * up in gate and in up: a plain loop nest.
#include <cmath>

#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 5) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  const float* grad_y = evokern::data<float>(args[0]);
  const float* gate = evokern::data<float>(args[1]);
  const float* up = evokern::data<float>(args[2]);
  float* grad_gate = evokern::data<float>(args[3]);
  float* grad_up = evokern::data<float>(args[4]);
  const int64_t grad_y_stride = evokern::row_stride(args[0]);
  const int64_t gate_stride = evokern::row_stride(args[1]);
  const int64_t up_stride = evokern::row_stride(args[2]);
  const int64_t grad_gate_stride = evokern::row_stride(args[3]);
  const int64_t grad_up_stride = evokern::row_stride(args[4]);

  for (int64_t row = 0; row < rows; ++row) {
    const float* grad = grad_y + row * grad_y_stride;
    const float* left = gate + row * gate_stride;
    const float* right = up + row * up_stride;
    float* left_out = grad_gate + row * grad_gate_stride;
    float* right_out = grad_up + row * grad_up_stride;
    for (int64_t col = 0; col < cols; ++col) {
      const float share = 1.0f / (1.0f + std::exp(-left[col]));
      const float silu = left[col] * share;
      left_out[col] = grad[col] * right[col] * (share + silu * (1.0f - share));
      right_out[col] = grad[col] * silu;
    }
  }
  return 0;
}
