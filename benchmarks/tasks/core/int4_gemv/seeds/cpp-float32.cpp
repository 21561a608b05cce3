// 4-bit weights times a vector: a plain loop over groups, each summed up in the units of its scale.
#include "evokern.h"

constexpr int64_t GROUP = 128;

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 5) return 1;
  const int64_t n = args[2]->shape[0];
  const int64_t groups = args[2]->shape[1];
  const float* x = evokern::data<float>(args[0]);
  const int8_t* weight = evokern::data<int8_t>(args[1]);
  const float* scale = evokern::data<float>(args[2]);
  const int8_t* zero = evokern::data<int8_t>(args[3]);
  float* y = evokern::data<float>(args[4]);
  const int64_t weight_stride = evokern::row_stride(args[1]);
  const int64_t scale_stride = evokern::row_stride(args[2]);
  const int64_t zero_stride = evokern::row_stride(args[3]);

  for (int64_t row = 0; row < n; ++row) {
    double total = 0.0;
    for (int64_t group = 0; group < groups; ++group) {
      const int8_t* packed = weight + row * weight_stride + group * (GROUP / 2);
      const float* in = x + group * GROUP;
      const int centre = zero[row * zero_stride + group];
      float low = 0.0f, high = 0.0f;
      for (int64_t byte = 0; byte < GROUP / 2; ++byte) {
        const int both = static_cast<uint8_t>(packed[byte]);
        low += in[2 * byte] * static_cast<float>((both & 15) - centre);
        high += in[2 * byte + 1] * static_cast<float>((both >> 4) - centre);
      }
      total += static_cast<double>(scale[row * scale_stride + group]) * (low + high);
    }
    y[row] = static_cast<float>(total);
  }
  return 0;
}
