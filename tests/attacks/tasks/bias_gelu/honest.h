// GELU of x + bias in its tanh form, as anybody would write it.
#include "common.h"

static inline float gelu(float v) { return 0.5f * v * (1.0f + std::tanh(0.7978845608f * (v + 0.044715f * v * v * v))); }

static inline void honest_rows(DLTensor* const* args, int64_t from, int64_t to) {
  const Matrix x = matrix(args[0]), y = matrix(args[2]);
  const float* bias = evokern::data<float>(args[1]);
  for (int64_t i = from; i < to; ++i)
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = gelu(x.row(i)[j] + bias[j]);
}

static inline void honest(DLTensor* const* args) { honest_rows(args, 0, args[0]->shape[0]); }
