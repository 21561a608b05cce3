// RMSNorm over the last axis, quantised to float8_e4m3fn with one scale per row: a plain loop nest.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "evokern.h"

// The nearest float8_e4m3fn, ties to even, of a value from -448 to 448, as its bits.
static uint8_t quantised(float value) {
  const float size = std::fabs(value);
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (size < 0.015625f) {
    // Below the smallest normal number, 2^-6, values are multiples of 2^-9.
    return sign | static_cast<uint8_t>(std::nearbyint(size * 512.0f));
  }
  uint32_t bits;
  std::memcpy(&bits, &size, sizeof bits);
  bits += 0x7FFFF + (bits >> 20 & 1);
  // The exponent's bias is 7 in place of 127.
  return sign | static_cast<uint8_t>(std::min<uint32_t>((bits >> 20) - (120 << 3), 0x7E));
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 5) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  const float* x = evokern::data<float>(args[0]);
  const float* weight = evokern::data<float>(args[1]);
  const float eps = evokern::scalar<float>(args[2]);
  uint8_t* q = evokern::data<uint8_t>(args[3]);
  float* scales = evokern::data<float>(args[4]);
  const int64_t x_stride = evokern::row_stride(args[0]);
  const int64_t q_stride = evokern::row_stride(args[3]);

  for (int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * x_stride;
    uint8_t* out = q + row * q_stride;
    double total = 0.0;
    float peak = 0.0f;
    for (int64_t col = 0; col < cols; ++col) {
      total += static_cast<double>(in[col]) * in[col];
      peak = std::max(peak, std::fabs(in[col] * weight[col]));
    }
    const double inverse = 1.0 / std::sqrt(total / cols + eps);
    const double scale = std::max(peak * inverse, 1e-12) / 448.0;
    scales[row] = static_cast<float>(scale);
    for (int64_t col = 0; col < cols; ++col) {
      const float value = static_cast<float>(in[col] * inverse * weight[col] / scale);
      out[col] = quantised(std::min(std::max(value, -448.0f), 448.0f));
    }
  }
  return 0;
}
