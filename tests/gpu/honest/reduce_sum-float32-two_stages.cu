// style: partial sums in the workspace and a second kernel, in a fixed order

#include "evokern.h"

using Element = float;

__device__ inline float wide(Element value) { return value; }
__device__ inline Element narrow(float value) { return value; }

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

__global__ void sum_parts(const Element* x, int64_t x_stride, int cols, int parts, float* found) {
  const Element* in = x + blockIdx.x / parts * x_stride;
  const int part = blockIdx.x % parts, last = min(cols, (part + 1) * SPAN);
  float total = 0.0f;
  for (int col = part * SPAN + threadIdx.x; col < last; col += blockDim.x) total += wide(in[col]);
  total = of_block(total, 0.0f, Add());
  if (threadIdx.x == 0) found[blockIdx.x] = total;
}

__global__ void sum_found(Element* y, int64_t rows, int parts, const float* found) {
  const int64_t row = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (row >= rows) return;
  float total = 0.0f;
  for (int i = 0; i < parts; ++i) total += found[row * parts + i];
  y[row] = narrow(total);
}

extern "C" size_t workspace_size(DLTensor* const* args, int) {
  return args[0]->shape[0] * ((args[0]->shape[1] + SPAN - 1) / SPAN) * sizeof(float);
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
  float* found = static_cast<float*>(workspace);
  sum_parts<<<static_cast<unsigned>(rows * parts), 512, 0, s>>>(x, x_stride, cols, parts, found);
  sum_found<<<static_cast<unsigned>((rows + 127) / 128), 128, 0, s>>>(y, rows, parts, found);
  return cudaGetLastError();
}
