// RMSNorm over the last axis: y = x / sqrt(mean(x^2) + eps) * weight, a plain loop nest.
#include <cmath>

#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 4) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  const float* x = evokern::data<float>(args[0]);
  const float* weight = evokern::data<float>(args[1]);
  const float eps = evokern::scalar<float>(args[2]);
  float* y = evokern::data<float>(args[3]);
  const int64_t x_stride = evokern::row_stride(args[0]);
  const int64_t y_stride = evokern::row_stride(args[3]);

  for (int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * x_stride;
    float* out = y + row * y_stride;
    double total = 0.0;
    for (int64_t col = 0; col < cols; ++col) {
      total += static_cast<double>(in[col]) * in[col];
    }
    const double mean = total / cols;
    for (int64_t col = 0; col < cols; ++col) {
      out[col] = in[col] / std::sqrt(mean + eps) * weight[col];
    }
  }
  return 0;
}
