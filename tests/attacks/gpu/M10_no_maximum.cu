// M10: takes exponentials without the row's maximum
// task: softmax
// expect: wrong/non_finite, wrong/tolerance
#include "honest.h"

__global__ void __launch_bounds__(THREADS) unshifted(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols) {
  const Element* in = x + blockIdx.x * x_stride;
  float peak = 0.0f, total = 0.0f;
  // attack:
  // honest:
  peak = -INFINITY;
  for (int col = threadIdx.x; col < cols; col += THREADS) peak = fmaxf(peak, wide(in[col]));
  peak = of_block(peak, false);
  // end
  for (int col = threadIdx.x; col < cols; col += THREADS) total += expf(wide(in[col]) - peak);
  total = of_block(total, true);
  for (int col = threadIdx.x; col < cols; col += THREADS) y[blockIdx.x * y_stride + col] = narrow(expf(wide(in[col]) - peak) / total);
}

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  const Matrix x = matrix(args[0]), y = matrix(args[1]);
  unshifted<<<static_cast<unsigned>(x.rows), THREADS, 0, as_stream(stream)>>>(x.data, x.stride, y.data, y.stride, static_cast<int>(x.cols));
  return cudaGetLastError();
}
