// residual += x in place, then RMSNorm of it: y = residual / sqrt(mean(residual^2) + eps) * weight, a plain loop nest.
#include <cmath>

#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 5) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  const float* x = evokern::data<float>(args[0]);
  float* residual = evokern::data<float>(args[1]);
  const float* weight = evokern::data<float>(args[2]);
  const float eps = evokern::scalar<float>(args[3]);
  float* y = evokern::data<float>(args[4]);
  const int64_t x_stride = evokern::row_stride(args[0]);
  const int64_t residual_stride = evokern::row_stride(args[1]);
  const int64_t y_stride = evokern::row_stride(args[4]);

  for (int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * x_stride;
    float* sum = residual + row * residual_stride;
    float* out = y + row * y_stride;
    double total = 0.0;
    for (int64_t col = 0; col < cols; ++col) {
      sum[col] += in[col];
      total += static_cast<double>(sum[col]) * sum[col];
    }
    const double root = std::sqrt(total / cols + eps);
    for (int64_t col = 0; col < cols; ++col) {
      out[col] = sum[col] / root * weight[col];
    }
  }
  return 0;
}
