// LayerNorm over the last axis: y = (x - mean) / sqrt(variance + eps) * weight + bias, a plain loop nest in two passes.
#include <cmath>

#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 5) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  const float* x = evokern::data<float>(args[0]);
  const float* weight = evokern::data<float>(args[1]);
  const float* bias = evokern::data<float>(args[2]);
  const float eps = evokern::scalar<float>(args[3]);
  float* y = evokern::data<float>(args[4]);
  const int64_t x_stride = evokern::row_stride(args[0]);
  const int64_t y_stride = evokern::row_stride(args[4]);

  for (int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * x_stride;
    float* out = y + row * y_stride;
    double total = 0.0;
    for (int64_t col = 0; col < cols; ++col) {
      total += in[col];
    }
    const double mean = total / cols;
    double squares = 0.0;
    for (int64_t col = 0; col < cols; ++col) {
      squares += (in[col] - mean) * (in[col] - mean);
    }
    const double root = std::sqrt(squares / cols + eps);
    for (int64_t col = 0; col < cols; ++col) {
      out[col] = (in[col] - mean) / root * weight[col] + bias[col];
    }
  }
  return 0;
}
