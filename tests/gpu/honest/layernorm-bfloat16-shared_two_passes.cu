// style: a row in dynamic shared memory, mean first and then squared distances
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

__global__ void layernorm(const Element* x, int64_t x_stride, const Element* weight, const Element* bias, float eps, Element* y,
    int64_t y_stride, int cols, int fits) {
  extern __shared__ float kept[];
  const Element* in = x + blockIdx.x * x_stride;
  Element* out = y + blockIdx.x * y_stride;
  const auto value = [&](int col) { return fits ? kept[col] : wide(in[col]); };
  float total = 0.0f;
  for (int col = threadIdx.x; col < cols; col += blockDim.x) {
    const float read = wide(in[col]);
    if (fits) kept[col] = read;
    total += read;
  }
  const float mean = of_block(total, 0.0f, Add()) / cols;
  float square = 0.0f;
  for (int col = threadIdx.x; col < cols; col += blockDim.x) square += (value(col) - mean) * (value(col) - mean);
  const float scale = rsqrtf(of_block(square, 0.0f, Add()) / cols + eps);
  for (int col = threadIdx.x; col < cols; col += blockDim.x) {
    out[col] = narrow((value(col) - mean) * scale * wide(weight[col]) + wide(bias[col]));
  }
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
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
  const size_t wanted = cols * sizeof(float), most = 160 << 10;
  const int fits = wanted <= most;
  const int failed = cudaFuncSetAttribute(layernorm, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(most));
  if (failed) return failed;
  layernorm<<<static_cast<unsigned>(rows), 512, fits ? wanted : 0, s>>>(x, x_stride, weight, bias, eps, y, y_stride, cols, fits);
  return cudaGetLastError();
}
