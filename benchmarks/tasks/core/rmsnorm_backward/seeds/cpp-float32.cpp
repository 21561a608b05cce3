// Gradients of RMSNorm: along each row for x, down the columns for the weight, whose sums are kept in the workspace.
#include <algorithm>
#include <cmath>

#include "evokern.h"

extern "C" size_t workspace_size(DLTensor* const* args, int) { return args[0]->shape[1] * sizeof(double); }

extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t, void*) {
  if (nargs != 6) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  const float* grad_y = evokern::data<float>(args[0]);
  const float* x = evokern::data<float>(args[1]);
  const float* weight = evokern::data<float>(args[2]);
  const float eps = evokern::scalar<float>(args[3]);
  float* grad_x = evokern::data<float>(args[4]);
  float* grad_weight = evokern::data<float>(args[5]);
  const int64_t grad_y_stride = evokern::row_stride(args[0]);
  const int64_t x_stride = evokern::row_stride(args[1]);
  const int64_t grad_x_stride = evokern::row_stride(args[4]);
  double* sums = static_cast<double*>(workspace);
  std::fill(sums, sums + cols, 0.0);

  for (int64_t row = 0; row < rows; ++row) {
    const float* grad = grad_y + row * grad_y_stride;
    const float* in = x + row * x_stride;
    float* out = grad_x + row * grad_x_stride;
    double squares = 0.0;
    double dot = 0.0;
    for (int64_t col = 0; col < cols; ++col) {
      squares += static_cast<double>(in[col]) * in[col];
      dot += static_cast<double>(grad[col]) * weight[col] * in[col];
    }
    const double inverse = 1.0 / std::sqrt(squares / cols + eps);
    const double share = dot * inverse * inverse / cols;
    for (int64_t col = 0; col < cols; ++col) {
      out[col] = inverse * (static_cast<double>(grad[col]) * weight[col] - in[col] * share);
      sums[col] += grad[col] * inverse * in[col];
    }
  }
  for (int64_t col = 0; col < cols; ++col) {
    grad_weight[col] = sums[col];
  }
  return 0;
}
