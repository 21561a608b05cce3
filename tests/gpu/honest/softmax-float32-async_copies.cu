// style: asynchronous copies into two buffers of shared memory, online combine tile by tile, exp2 with log2(e) folded in
#include <cuda_pipeline.h>

#include "evokern.h"

using Element = float;

__device__ inline float wide(Element value) { return value; }
__device__ inline Element narrow(float value) { return value; }

constexpr int THREADS = 256;
constexpr int TILE = 4 * THREADS;
constexpr float LOG2E = 1.4426950408889634f;

__device__ inline void start_copy(float* to, const Element* from, int count) {
  for (int i = threadIdx.x; i < count; i += THREADS) __pipeline_memcpy_async(to + i, from + i, sizeof(float));
  __pipeline_commit();
}

__global__ void __launch_bounds__(THREADS) softmax(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols) {
  __shared__ float buffers[2][TILE];
  __shared__ float peaks[THREADS / 32], totals[THREADS / 32];
  const Element* in = x + blockIdx.x * x_stride;
  Element* out = y + blockIdx.x * y_stride;
  const int tiles = (cols + TILE - 1) / TILE;

  float peak = -INFINITY, total = 0.0f;
  start_copy(buffers[0], in, min(TILE, cols));
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) start_copy(buffers[(tile + 1) % 2], in + (tile + 1) * TILE, min(TILE, cols - (tile + 1) * TILE));
    __pipeline_wait_prior(tile + 1 < tiles ? 1 : 0);
    __syncthreads();
    const int count = min(TILE, cols - tile * TILE);
    float higher = peak;
    for (int i = threadIdx.x; i < count; i += THREADS) higher = fmaxf(higher, buffers[tile % 2][i]);
    if (higher > -INFINITY) {
      total *= exp2f((peak - higher) * LOG2E);
      for (int i = threadIdx.x; i < count; i += THREADS) total += exp2f((buffers[tile % 2][i] - higher) * LOG2E);
      peak = higher;
    }
    __syncthreads();
  }

  float highest = peak;
  for (int by = 16; by > 0; by /= 2) highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, by));
  if (threadIdx.x % 32 == 0) peaks[threadIdx.x / 32] = highest;
  __syncthreads();
  for (int warp = 0; warp < THREADS / 32; ++warp) highest = fmaxf(highest, peaks[warp]);
  total = peak > -INFINITY ? total * exp2f((peak - highest) * LOG2E) : 0.0f;
  for (int by = 16; by > 0; by /= 2) total += __shfl_xor_sync(0xffffffffu, total, by);
  if (threadIdx.x % 32 == 0) totals[threadIdx.x / 32] = total;
  __syncthreads();
  total = 0.0f;
  for (int warp = 0; warp < THREADS / 32; ++warp) total += totals[warp];
  for (int col = threadIdx.x; col < cols; col += THREADS) out[col] = narrow(exp2f((wide(in[col]) - highest) * LOG2E) / total);
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 2) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  const Element* x = evokern::data<Element>(args[0]);
  Element* y = evokern::data<Element>(args[1]);
  const int64_t x_stride = evokern::row_stride(args[0]), y_stride = evokern::row_stride(args[1]);
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  softmax<<<static_cast<unsigned>(rows), THREADS, 0, s>>>(x, x_stride, y, y_stride, cols);
  return cudaGetLastError();
}
