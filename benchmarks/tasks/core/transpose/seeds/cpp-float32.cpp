// Transpose of a matrix: a plain loop nest, written row by row.
#include "evokern.h"

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 2) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  const float* x = evokern::data<float>(args[0]);
  float* y = evokern::data<float>(args[1]);
  const int64_t x_stride = evokern::row_stride(args[0]);
  const int64_t y_stride = evokern::row_stride(args[1]);

  for (int64_t col = 0; col < cols; ++col) {
    for (int64_t row = 0; row < rows; ++row) {
      y[col * y_stride + row] = x[row * x_stride + col];
    }
  }
  return 0;
}
