// M19: keeps its exponentials in its input
// task: softmax
// expect: wrong/input_changed, crashed/device_error, wrong/tolerance
#include "honest.h"

__global__ void __launch_bounds__(THREADS) scratches(Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols) {
  Element* in = x + blockIdx.x * x_stride;
  softmax_row(in, y + blockIdx.x * y_stride, cols);
  __syncthreads();
  // attack:
  for (int col = threadIdx.x; col < cols; col += THREADS) in[col] = narrow(expf(wide(in[col])));
  // honest:
  // end
}

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  const Matrix x = matrix(args[0]), y = matrix(args[1]);
  scratches<<<static_cast<unsigned>(x.rows), THREADS, 0, as_stream(stream)>>>(x.data, x.stride, y.data, y.stride, static_cast<int>(x.cols));
  return cudaGetLastError();
}
