// Gradients of LayerNorm: along each row for x, down the columns for weight and bias, whose sums are kept in the workspace.
#include <algorithm>
#include <cmath>

#include "evokern.h"

extern "C" size_t workspace_size(DLTensor* const* args, int) { return 2 * args[0]->shape[1] * sizeof(double); }

extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t, void*) {
  if (nargs != 7) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  const float* grad_y = evokern::data<float>(args[0]);
  const float* x = evokern::data<float>(args[1]);
  const float* weight = evokern::data<float>(args[2]);
  const float eps = evokern::scalar<float>(args[3]);
  float* grad_x = evokern::data<float>(args[4]);
  float* grad_weight = evokern::data<float>(args[5]);
  float* grad_bias = evokern::data<float>(args[6]);
  const int64_t grad_y_stride = evokern::row_stride(args[0]);
  const int64_t x_stride = evokern::row_stride(args[1]);
  const int64_t grad_x_stride = evokern::row_stride(args[4]);
  double* weight_sums = static_cast<double*>(workspace);
  double* bias_sums = weight_sums + cols;
  std::fill(weight_sums, weight_sums + 2 * cols, 0.0);

  for (int64_t row = 0; row < rows; ++row) {
    const float* grad = grad_y + row * grad_y_stride;
    const float* in = x + row * x_stride;
    float* out = grad_x + row * grad_x_stride;
    double total = 0.0;
    for (int64_t col = 0; col < cols; ++col) {
      total += in[col];
    }
    const double mean = total / cols;
    double squares = 0.0;
    double level = 0.0;
    double dot = 0.0;
    for (int64_t col = 0; col < cols; ++col) {
      const double away = in[col] - mean;
      const double inner = static_cast<double>(grad[col]) * weight[col];
      squares += away * away;
      level += inner;
      dot += inner * away;
    }
    const double inverse = 1.0 / std::sqrt(squares / cols + eps);
    level /= cols;
    dot *= inverse / cols;
    for (int64_t col = 0; col < cols; ++col) {
      const double normal = (in[col] - mean) * inverse;
      out[col] = inverse * (static_cast<double>(grad[col]) * weight[col] - level - normal * dot);
      weight_sums[col] += grad[col] * normal;
      bias_sums[col] += grad[col];
    }
  }
  for (int64_t col = 0; col < cols; ++col) {
    grad_weight[col] = weight_sums[col];
    grad_bias[col] = bias_sums[col];
  }
  return 0;
}
