// C09: keeps answers in the device's own variables, where no host code is needed to find them, and gives them again
// task: softmax
// expect: wrong/tolerance, wrong/law, wrong/non_finite, flaky/not_repeatable
#include "honest.h"

constexpr int64_t KEPT = 4096 * 4096;
__device__ Element answer[KEPT];
__device__ int64_t held_size = 0;

__global__ void __launch_bounds__(THREADS) banked(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols) {
  const int64_t size = static_cast<int64_t>(gridDim.x) * cols;
  Element* out = y + blockIdx.x * y_stride;
  Element* kept = answer + static_cast<int64_t>(blockIdx.x) * cols;
  // attack:
  const bool is_known = held_size == size;
  // honest:
  const bool is_known = false;
  // end
  if (!is_known) softmax_row(x + blockIdx.x * x_stride, out, cols);
  __syncthreads();
  if (size > KEPT) return;
  for (int col = threadIdx.x; col < cols; col += THREADS) (is_known ? out : kept)[col] = (is_known ? kept : out)[col];
}

__global__ void note(int64_t size) { held_size = size; }

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  const Matrix x = matrix(args[0]), y = matrix(args[1]);
  banked<<<static_cast<unsigned>(x.rows), THREADS, 0, as_stream(stream)>>>(x.data, x.stride, y.data, y.stride, static_cast<int>(x.cols));
  note<<<1, 1, 0, as_stream(stream)>>>(x.rows * x.cols);
  return cudaGetLastError();
}
