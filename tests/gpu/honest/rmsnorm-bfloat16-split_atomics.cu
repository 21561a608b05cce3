// style: sums of squares of parts of a row by atomic adds on the workspace, then a kernel that scales
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
  const int64_t row = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (row < rows) totals[row] = 0.0f;
}

__global__ void add_squares(const Element* x, int64_t x_stride, int cols, int parts, float* totals) {
  const int64_t row = blockIdx.x / parts;
  const int part = blockIdx.x % parts, last = min(cols, (part + 1) * SPAN);
  float total = 0.0f;
  for (int col = part * SPAN + threadIdx.x; col < last; col += blockDim.x) {
    const float value = wide(x[row * x_stride + col]);
    total += value * value;
  }
  total = of_block(total, 0.0f, Add());
  if (threadIdx.x == 0) atomicAdd(&totals[row], total);
}

__global__ void apply(const Element* x, int64_t x_stride, const Element* weight, float eps, Element* y, int64_t y_stride, int cols,
    int parts, const float* totals) {
  const int64_t row = blockIdx.x / parts;
  const int part = blockIdx.x % parts, last = min(cols, (part + 1) * SPAN);
  const float scale = rsqrtf(totals[row] / cols + eps);
  for (int col = part * SPAN + threadIdx.x; col < last; col += blockDim.x) {
    y[row * y_stride + col] = narrow(wide(x[row * x_stride + col]) * scale * wide(weight[col]));
  }
}

extern "C" size_t workspace_size(DLTensor* const* args, int) {
  return args[0]->shape[0] * sizeof(float);
}

extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t, void* stream) {
  if (nargs != 4) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  const Element* x = evokern::data<Element>(args[0]);
  const Element* weight = evokern::data<Element>(args[1]);
  const float eps = evokern::scalar<float>(args[2]);
  Element* y = evokern::data<Element>(args[3]);
  const int64_t x_stride = evokern::row_stride(args[0]), y_stride = evokern::row_stride(args[3]);
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  const int parts = (cols + SPAN - 1) / SPAN;
  const unsigned grid = static_cast<unsigned>(rows * parts);
  float* totals = static_cast<float*>(workspace);
  clear<<<static_cast<unsigned>((rows + 255) / 256), 256, 0, s>>>(totals, rows);
  add_squares<<<grid, 256, 0, s>>>(x, x_stride, cols, parts, totals);
  apply<<<grid, 256, 0, s>>>(x, x_stride, weight, eps, y, y_stride, cols, parts, totals);
  return cudaGetLastError();
}
