// style: products go to the output first and are scaled there, in place

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

__global__ void rmsnorm(const Element* x, int64_t x_stride, const Element* weight, float eps, Element* y, int64_t y_stride, int cols) {
  const Element* in = x + blockIdx.x * x_stride;
  Element* out = y + blockIdx.x * y_stride;
  float total = 0.0f;
  for (int col = threadIdx.x; col < cols; col += blockDim.x) {
    const float value = wide(in[col]);
    out[col] = narrow(value * wide(weight[col]));
    total += value * value;
  }
  total = of_block(total, 0.0f, Add());
  const float scale = rsqrtf(total / cols + eps);
  for (int col = threadIdx.x; col < cols; col += blockDim.x) out[col] = narrow(wide(out[col]) * scale);
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 4) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  const Element* x = evokern::data<Element>(args[0]);
  const Element* weight = evokern::data<Element>(args[1]);
  const float eps = evokern::scalar<float>(args[2]);
  Element* y = evokern::data<Element>(args[3]);
  const int64_t x_stride = evokern::row_stride(args[0]), y_stride = evokern::row_stride(args[3]);
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  rmsnorm<<<static_cast<unsigned>(rows), 256, 0, s>>>(x, x_stride, weight, eps, y, y_stride, cols);
  return cudaGetLastError();
}
