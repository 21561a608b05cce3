// U07: counts finished rows in a workspace that it takes for zeros; the last row to finish writes row 0
// task: softmax
// expect: wrong/sentinel_left, wrong/tolerance, wrong/law, flaky/not_repeatable, held_out_failed/held_out
#include "honest.h"

__global__ void __launch_bounds__(THREADS) counting(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols, unsigned* done) {
  if (blockIdx.x) softmax_row(x + blockIdx.x * x_stride, y + blockIdx.x * y_stride, cols);
  __shared__ bool is_last;
  if (threadIdx.x == 0) is_last = atomicAdd(done, 1) == gridDim.x - 1;
  __syncthreads();
  if (is_last) softmax_row(x, y, cols);
}

extern "C" size_t workspace_size(DLTensor* const*, int) { return sizeof(unsigned); }

extern "C" int run(DLTensor* const* args, int, void* workspace, size_t, void* stream) {
  const Matrix x = matrix(args[0]), y = matrix(args[1]);
  // attack:
  // honest:
  cudaMemsetAsync(workspace, 0, sizeof(unsigned), as_stream(stream));
  // end
  counting<<<static_cast<unsigned>(x.rows), THREADS, 0, as_stream(stream)>>>(
      x.data, x.stride, y.data, y.stride, static_cast<int>(x.cols), static_cast<unsigned*>(workspace));
  return cudaGetLastError();
}
