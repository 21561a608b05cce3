// GroupNorm: each group of channels is normalised over its channels and columns, a plain loop nest in two passes.
#include <cmath>

#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 5) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t groups = args[0]->shape[1];
  const int64_t depth = args[0]->shape[2];
  const int64_t cols = args[0]->shape[3];
  const float* x = evokern::data<float>(args[0]);
  const float* weight = evokern::data<float>(args[1]);
  const float* bias = evokern::data<float>(args[2]);
  const float eps = evokern::scalar<float>(args[3]);
  float* y = evokern::data<float>(args[4]);
  const int64_t* x_strides = args[0]->strides;
  const int64_t* y_strides = args[4]->strides;

  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      const float* from = x + row * x_strides[0] + group * x_strides[1];
      float* to = y + row * y_strides[0] + group * y_strides[1];
      double total = 0.0;
      for (int64_t channel = 0; channel < depth; ++channel) {
        const float* in = from + channel * x_strides[2];
        for (int64_t col = 0; col < cols; ++col) {
          total += in[col];
        }
      }
      const double mean = total / (depth * cols);
      double squares = 0.0;
      for (int64_t channel = 0; channel < depth; ++channel) {
        const float* in = from + channel * x_strides[2];
        for (int64_t col = 0; col < cols; ++col) {
          squares += (in[col] - mean) * (in[col] - mean);
        }
      }
      const double root = std::sqrt(squares / (depth * cols) + eps);
      for (int64_t channel = 0; channel < depth; ++channel) {
        const float* in = from + channel * x_strides[2];
        float* out = to + channel * y_strides[2];
        const float scale = weight[group * depth + channel];
        const float shift = bias[group * depth + channel];
        for (int64_t col = 0; col < cols; ++col) {
          out[col] = (in[col] - mean) / root * scale + shift;
        }
      }
    }
  }
  return 0;
}
