// Inclusive running sum along each row: a plain loop.
#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 2) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  const float* x = evokern::data<float>(args[0]);
  float* y = evokern::data<float>(args[1]);
  const int64_t x_stride = evokern::row_stride(args[0]);
  const int64_t y_stride = evokern::row_stride(args[1]);

  for (int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * x_stride;
    float* out = y + row * y_stride;
    double total = 0.0;
    for (int64_t col = 0; col < cols; ++col) {
      total += in[col];
      out[col] = static_cast<float>(total);
    }
  }
  return 0;
}
