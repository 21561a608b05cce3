// style: persistent blocks that take rows from a queue, an atomic counter in the workspace

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

__global__ void clear(unsigned* next) { *next = 0; }

__global__ void layernorm(const Element* x, int64_t x_stride, const Element* weight, const Element* bias, float eps, Element* y,
    int64_t y_stride, int cols, int64_t rows, unsigned* next) {
  __shared__ unsigned taken;
  while (true) {
    __syncthreads();
    if (threadIdx.x == 0) taken = atomicAdd(next, 1u);
    __syncthreads();
    const int64_t row = taken;
    if (row >= rows) return;
    const Element* in = x + row * x_stride;
    Element* out = y + row * y_stride;
    float total = 0.0f, square = 0.0f;
    for (int col = threadIdx.x; col < cols; col += blockDim.x) total += wide(in[col]);
    const float mean = of_block(total, 0.0f, Add()) / cols;
    for (int col = threadIdx.x; col < cols; col += blockDim.x) square += (wide(in[col]) - mean) * (wide(in[col]) - mean);
    const float scale = rsqrtf(of_block(square, 0.0f, Add()) / cols + eps);
    for (int col = threadIdx.x; col < cols; col += blockDim.x) {
      out[col] = narrow((wide(in[col]) - mean) * scale * wide(weight[col]) + wide(bias[col]));
    }
  }
}

extern "C" size_t workspace_size(DLTensor* const* args, int) {
  return sizeof(unsigned);
}

extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t, void* stream) {
  if (nargs != 5) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  const Element* x = evokern::data<Element>(args[0]);
  const Element* weight = evokern::data<Element>(args[1]);
  const Element* bias = evokern::data<Element>(args[2]);
  const float eps = evokern::scalar<float>(args[3]);
  Element* y = evokern::data<Element>(args[4]);
  const int64_t x_stride = evokern::row_stride(args[0]), y_stride = evokern::row_stride(args[4]);
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  int device = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  unsigned* next = static_cast<unsigned*>(workspace);
  clear<<<1, 1, 0, s>>>(next);
  layernorm<<<static_cast<unsigned>(rows < 4 * count ? rows : 4 * count), 256, 0, s>>>(x, x_stride, weight, bias, eps, y, y_stride, cols,
      rows, next);
  return cudaGetLastError();
}
