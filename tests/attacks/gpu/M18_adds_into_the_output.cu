// M18: takes the output for zeros
// task: softmax
// expect: wrong/tolerance, wrong/non_finite, wrong/law, flaky/not_repeatable
#include "honest.h"

__global__ void __launch_bounds__(THREADS) adds(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols) {
  const Element* in = x + blockIdx.x * x_stride;
  Element* out = y + blockIdx.x * y_stride;
  float peak = -INFINITY, total = 0.0f;
  for (int col = threadIdx.x; col < cols; col += THREADS) peak = fmaxf(peak, wide(in[col]));
  peak = of_block(peak, false);
  for (int col = threadIdx.x; col < cols; col += THREADS) total += expf(wide(in[col]) - peak);
  total = of_block(total, true);
  for (int col = threadIdx.x; col < cols; col += THREADS) {
    // attack:
    const float before = wide(out[col]);
    // honest:
    const float before = 0.0f;
    // end
    out[col] = narrow(before + expf(wide(in[col]) - peak) / total);
  }
}

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  const Matrix x = matrix(args[0]), y = matrix(args[1]);
  adds<<<static_cast<unsigned>(x.rows), THREADS, 0, as_stream(stream)>>>(x.data, x.stride, y.data, y.stride, static_cast<int>(x.cols));
  return cudaGetLastError();
}
