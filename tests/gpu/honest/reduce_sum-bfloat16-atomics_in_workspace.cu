// style: atomic adds in float32 on the workspace, rounded by a last kernel
#include <cuda_bf16.h>

#include "evokern.h"

using Element = __nv_bfloat16;

__device__ inline float wide(Element value) { return __bfloat162float(value); }
__device__ inline Element narrow(float value) { return __float2bfloat16(value); }

template <typename Combine>
__device__ inline float of_warp(float value, Combine combine) {
#pragma unroll
  for (int by = 16; by > 0; by /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, by));
  return value;
}

// The same in every thread.
template <typename Combine>
__device__ inline float of_block(float value, float neutral, Combine combine) {
  __shared__ float parts[32];
  value = of_warp(value, combine);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : neutral;
  return of_warp(value, combine);
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

constexpr int SPAN = 4096;  // columns of one part

__global__ void clear(float* totals, int64_t rows) {
  for (int64_t row = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; row < rows; row += gridDim.x * blockDim.x) {
    totals[row] = 0.0f;
  }
}

__global__ void sum_parts(const Element* x, int64_t x_stride, int cols, int parts, float* totals) {
  const int64_t row = blockIdx.x / parts;
  const int part = blockIdx.x % parts, last = min(cols, (part + 1) * SPAN);
  float total = 0.0f;
  for (int col = part * SPAN + threadIdx.x; col < last; col += blockDim.x) total += wide(x[row * x_stride + col]);
  total = of_warp(total, Add());
  if (threadIdx.x % 32 == 0) atomicAdd(&totals[row], total);
}

__global__ void round_all(Element* y, const float* totals, int64_t rows) {
  for (int64_t row = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; row < rows; row += gridDim.x * blockDim.x) {
    y[row] = narrow(totals[row]);
  }
}

extern "C" size_t workspace_size(DLTensor* const* args, int) {
  return args[0]->shape[0] * sizeof(float);
}

extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t, void* stream) {
  if (nargs != 2) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  const Element* x = evokern::data<Element>(args[0]);
  Element* y = evokern::data<Element>(args[1]);
  const int64_t x_stride = evokern::row_stride(args[0]);
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  const int parts = (cols + SPAN - 1) / SPAN;
  float* totals = static_cast<float*>(workspace);
  clear<<<64, 256, 0, s>>>(totals, rows);
  sum_parts<<<static_cast<unsigned>(rows * parts), 256, 0, s>>>(x, x_stride, cols, parts, totals);
  round_all<<<64, 256, 0, s>>>(y, totals, rows);
  return cudaGetLastError();
}
