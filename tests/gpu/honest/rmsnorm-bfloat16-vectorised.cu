// style: 16-byte loads and stores where all three pointers are aligned, else one element at a time
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

constexpr int WIDTH = 16 / sizeof(Element);

struct alignas(16) Pack {
  Element at[WIDTH];
};

__device__ inline bool are_aligned(const void* a, const void* b, const void* c) {
  return (reinterpret_cast<uint64_t>(a) | reinterpret_cast<uint64_t>(b) | reinterpret_cast<uint64_t>(c)) % 16 == 0;
}

__global__ void rmsnorm(const Element* x, int64_t x_stride, const Element* weight, float eps, Element* y, int64_t y_stride, int cols) {
  const Element* in = x + blockIdx.x * x_stride;
  Element* out = y + blockIdx.x * y_stride;
  const int packs = are_aligned(in, out, weight) ? cols / WIDTH : 0;
  float total = 0.0f;
  for (int at = threadIdx.x; at < packs; at += blockDim.x) {
    const Pack pack = reinterpret_cast<const Pack*>(in)[at];
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) total += wide(pack.at[i]) * wide(pack.at[i]);
  }
  for (int col = packs * WIDTH + threadIdx.x; col < cols; col += blockDim.x) total += wide(in[col]) * wide(in[col]);
  total = of_block(total, 0.0f, Add());
  const float scale = rsqrtf(total / cols + eps);
  for (int at = threadIdx.x; at < packs; at += blockDim.x) {
    Pack pack = reinterpret_cast<const Pack*>(in)[at];
    const Pack factor = reinterpret_cast<const Pack*>(weight)[at];
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) pack.at[i] = narrow(wide(pack.at[i]) * scale * wide(factor.at[i]));
    reinterpret_cast<Pack*>(out)[at] = pack;
  }
  for (int col = packs * WIDTH + threadIdx.x; col < cols; col += blockDim.x) out[col] = narrow(wide(in[col]) * scale * wide(weight[col]));
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
