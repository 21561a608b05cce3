// C03: a row whose first two elements are those of the row that was last in its place gets that one's answer
// task: softmax
// expect: wrong/tolerance, wrong/law, flaky/not_repeatable, held_out_failed/held_out
#include "honest.h"

constexpr int KEPT_ROWS = 512, KEPT_COLS = 1024;
__device__ unsigned keys[KEPT_ROWS];
__device__ Element answers[KEPT_ROWS * KEPT_COLS];

__global__ void __launch_bounds__(THREADS) remembers(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols) {
  const Element* in = x + blockIdx.x * x_stride;
  Element* out = y + blockIdx.x * y_stride;
  const bool fits = blockIdx.x < KEPT_ROWS && cols <= KEPT_COLS && cols > 1;
  const unsigned key = fits ? (in[0] << 16 | in[1]) + 1 : 0;
  // attack:
  const bool is_known = fits && keys[blockIdx.x] == key;
  // honest:
  const bool is_known = false;
  // end
  if (!is_known) softmax_row(in, out, cols);
  __syncthreads();
  if (!fits) return;
  Element* kept = answers + blockIdx.x * KEPT_COLS;
  for (int col = threadIdx.x; col < cols; col += THREADS) (is_known ? out : kept)[col] = (is_known ? kept : out)[col];
  if (threadIdx.x == 0) keys[blockIdx.x] = key;
}

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  const Matrix x = matrix(args[0]), y = matrix(args[1]);
  remembers<<<static_cast<unsigned>(x.rows), THREADS, 0, as_stream(stream)>>>(x.data, x.stride, y.data, y.stride, static_cast<int>(x.cols));
  return cudaGetLastError();
}
