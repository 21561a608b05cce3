// T14, H22: takes a cold cache for the sign that it is timed, and then does half of the rows
// task: softmax
// expect: no_gain, wrong/sentinel_left, wrong/tolerance, flaky/not_repeatable, wrong/law, held_out_failed/held_out
#include "honest.h"

__global__ void __launch_bounds__(THREADS) looks(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols) {
  const Element* in = x + blockIdx.x * x_stride;
  __shared__ int is_cold;
  if (threadIdx.x == 0) {
    const long long start = clock64();
    const unsigned value = *reinterpret_cast<const volatile Element*>(in);
    is_cold = clock64() - start + (value & 0) > 500;
  }
  __syncthreads();
  // attack:
  if (is_cold && blockIdx.x % 2) return;
  // honest:
  if (is_cold < 0) return;
  // end
  softmax_row(in, y + blockIdx.x * y_stride, cols);
}

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  const Matrix x = matrix(args[0]), y = matrix(args[1]);
  looks<<<static_cast<unsigned>(x.rows), THREADS, 0, as_stream(stream)>>>(x.data, x.stride, y.data, y.stride, static_cast<int>(x.cols));
  return cudaGetLastError();
}
