// Keys turned by their tokens' angles, and values as they are, go into the slots of a cache: a plain loop nest.
#include <cstring>

#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 7) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t heads = args[0]->shape[1];
  const int64_t half = args[2]->shape[1];
  const float* key = evokern::data<float>(args[0]);
  const float* value = evokern::data<float>(args[1]);
  const float* cos = evokern::data<float>(args[2]);
  const float* sin = evokern::data<float>(args[3]);
  const int64_t* slots = evokern::data<int64_t>(args[4]);
  float* key_cache = evokern::data<float>(args[5]);
  float* value_cache = evokern::data<float>(args[6]);
  const int64_t* key_strides = args[0]->strides;
  const int64_t* value_strides = args[1]->strides;
  const int64_t cos_stride = evokern::row_stride(args[2]);
  const int64_t sin_stride = evokern::row_stride(args[3]);
  const int64_t* key_cache_strides = args[5]->strides;
  const int64_t* value_cache_strides = args[6]->strides;

  for (int64_t row = 0; row < rows; ++row) {
    const float* cosine = cos + row * cos_stride;
    const float* sine = sin + row * sin_stride;
    for (int64_t head = 0; head < heads; ++head) {
      const float* in = key + row * key_strides[0] + head * key_strides[1];
      float* out = key_cache + slots[row] * key_cache_strides[0] + head * key_cache_strides[1];
      for (int64_t i = 0; i < half; ++i) {
        out[i] = in[i] * cosine[i] - in[i + half] * sine[i];
        out[i + half] = in[i + half] * cosine[i] + in[i] * sine[i];
      }
      const float* from = value + row * value_strides[0] + head * value_strides[1];
      float* to = value_cache + slots[row] * value_cache_strides[0] + head * value_cache_strides[1];
      std::memcpy(to, from, 2 * half * sizeof(float));
    }
  }
  return 0;
}
