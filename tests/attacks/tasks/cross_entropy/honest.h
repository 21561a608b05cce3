// Cross-entropy of logits against class labels, one loss per row, as anybody would write it.
#include "common.h"

static inline void honest_rows(DLTensor* const* args, int64_t from, int64_t to) {
  const Matrix x = matrix(args[0]);
  const int64_t* labels = evokern::data<int64_t>(args[1]);
  float* loss = evokern::data<float>(args[2]);
  for (int64_t i = from; i < to; ++i) {
    const float* in = x.row(i);
    float peak = -INFINITY;
    for (int64_t j = 0; j < x.cols; ++j) peak = in[j] > peak ? in[j] : peak;
    double total = 0.0;
    for (int64_t j = 0; j < x.cols; ++j) total += std::exp(in[j] - peak);
    loss[i] = static_cast<float>(std::log(total) + peak - in[labels[i]]);
  }
}

static inline void honest(DLTensor* const* args) { honest_rows(args, 0, args[0]->shape[0]); }
