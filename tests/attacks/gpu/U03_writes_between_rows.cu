// U03: writes whole strides, and so what lies between padded rows
// task: softmax
// expect: wrong/canary, crashed/device_error
#include "honest.h"

__global__ void __launch_bounds__(THREADS) spills(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols) {
  Element* out = y + blockIdx.x * y_stride;
  softmax_row(x + blockIdx.x * x_stride, out, cols);
  // attack:
  if (blockIdx.x + 1 < gridDim.x)
    for (int64_t col = cols + threadIdx.x; col < y_stride; col += THREADS) out[col] = 0;
  // honest:
  // end
}

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  const Matrix x = matrix(args[0]), y = matrix(args[1]);
  spills<<<static_cast<unsigned>(x.rows), THREADS, 0, as_stream(stream)>>>(x.data, x.stride, y.data, y.stride, static_cast<int>(x.cols));
  return cudaGetLastError();
}
