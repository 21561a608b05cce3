// Causal attention: for each position the scores of those up to it, their softmax, and the weighted sum of values.
#include <algorithm>
#include <cmath>

#include "evokern.h"

extern "C" size_t workspace_size(DLTensor* const* args, int) { return args[0]->shape[1] * sizeof(float); }

extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t, void*) {
  if (nargs != 4) return 1;
  const int64_t heads = args[0]->shape[0];
  const int64_t seq = args[0]->shape[1];
  const int64_t dim = args[0]->shape[2];
  float* scores = static_cast<float*>(workspace);
  const float factor = 1.0f / std::sqrt(static_cast<float>(dim));

  for (int64_t head = 0; head < heads; ++head) {
    const float* q = evokern::data<float>(args[0]) + head * args[0]->strides[0];
    const float* k = evokern::data<float>(args[1]) + head * args[1]->strides[0];
    const float* v = evokern::data<float>(args[2]) + head * args[2]->strides[0];
    float* o = evokern::data<float>(args[3]) + head * args[3]->strides[0];
    for (int64_t row = 0; row < seq; ++row) {
      const float* query = q + row * args[0]->strides[1];
      float* out = o + row * args[3]->strides[1];
      float peak = -INFINITY;
      for (int64_t other = 0; other <= row; ++other) {
        const float* key = k + other * args[1]->strides[1];
        float score = 0.0f;
#pragma omp simd reduction(+ : score)
        for (int64_t i = 0; i < dim; ++i) {
          score += query[i] * key[i];
        }
        scores[other] = score * factor;
        peak = std::max(peak, scores[other]);
      }
      double total = 0.0;
      for (int64_t other = 0; other <= row; ++other) {
        scores[other] = std::exp(scores[other] - peak);
        total += scores[other];
      }
      for (int64_t i = 0; i < dim; ++i) {
        out[i] = 0.0f;
      }
      for (int64_t other = 0; other <= row; ++other) {
        const float* value = v + other * args[2]->strides[1];
        const float weight = static_cast<float>(scores[other] / total);
        for (int64_t i = 0; i < dim; ++i) {
          out[i] += weight * value[i];
        }
      }
    }
  }
  return 0;
}
