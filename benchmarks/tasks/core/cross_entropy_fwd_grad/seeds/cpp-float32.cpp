// Cross-entropy of logits against class labels, and in the place of the logits its gradient: softmax less 1 at the label.
#include <algorithm>
#include <cmath>

#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 3) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  float* logits = evokern::data<float>(args[0]);
  const int64_t* labels = evokern::data<int64_t>(args[1]);
  float* loss = evokern::data<float>(args[2]);
  const int64_t stride = evokern::row_stride(args[0]);

  for (int64_t row = 0; row < rows; ++row) {
    float* in = logits + row * stride;
    float peak = -INFINITY;
    for (int64_t col = 0; col < cols; ++col) {
      peak = std::max(peak, in[col]);
    }
    double total = 0.0;
    for (int64_t col = 0; col < cols; ++col) {
      total += std::exp(in[col] - peak);
    }
    loss[row] = std::log(total) + peak - in[labels[row]];
    for (int64_t col = 0; col < cols; ++col) {
      in[col] = std::exp(in[col] - peak) / total - (col == labels[row] ? 1.0 : 0.0);
    }
  }
  return 0;
}
