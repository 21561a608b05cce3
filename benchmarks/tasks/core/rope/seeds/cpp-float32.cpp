// Rotary position embedding: each pair (x[i], x[i + half]) of a head is turned by its token's angle, a plain loop nest.
#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 4) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t heads = args[0]->shape[1];
  const int64_t half = args[1]->shape[1];
  const float* x = evokern::data<float>(args[0]);
  const float* cos = evokern::data<float>(args[1]);
  const float* sin = evokern::data<float>(args[2]);
  float* y = evokern::data<float>(args[3]);
  const int64_t* x_strides = args[0]->strides;
  const int64_t cos_stride = evokern::row_stride(args[1]);
  const int64_t sin_stride = evokern::row_stride(args[2]);
  const int64_t* y_strides = args[3]->strides;

  for (int64_t row = 0; row < rows; ++row) {
    const float* cosine = cos + row * cos_stride;
    const float* sine = sin + row * sin_stride;
    for (int64_t head = 0; head < heads; ++head) {
      const float* in = x + row * x_strides[0] + head * x_strides[1];
      float* out = y + row * y_strides[0] + head * y_strides[1];
      for (int64_t i = 0; i < half; ++i) {
        out[i] = in[i] * cosine[i] - in[i + half] * sine[i];
        out[i + half] = in[i + half] * cosine[i] + in[i] * sine[i];
      }
    }
  }
  return 0;
}
