// style: a row in registers, one of four instances by its length, a loop beyond
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

template <int EACH>
__global__ void layernorm_in_registers(const Element* x, int64_t x_stride, const Element* weight, const Element* bias, float eps,
    Element* y, int64_t y_stride, int cols) {
  const Element* in = x + blockIdx.x * x_stride;
  Element* out = y + blockIdx.x * y_stride;
  float kept[EACH], total = 0.0f, square = 0.0f;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int col = threadIdx.x + i * blockDim.x;
    kept[i] = col < cols ? wide(in[col]) : 0.0f;
    total += kept[i];
  }
  const float mean = of_block(total, 0.0f, Add()) / cols;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    if (threadIdx.x + i * blockDim.x < cols) square += (kept[i] - mean) * (kept[i] - mean);
  }
  const float scale = rsqrtf(of_block(square, 0.0f, Add()) / cols + eps);
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int col = threadIdx.x + i * blockDim.x;
    if (col < cols) out[col] = narrow((kept[i] - mean) * scale * wide(weight[col]) + wide(bias[col]));
  }
}

__global__ void layernorm_of_any(const Element* x, int64_t x_stride, const Element* weight, const Element* bias, float eps, Element* y,
    int64_t y_stride, int cols) {
  const Element* in = x + blockIdx.x * x_stride;
  Element* out = y + blockIdx.x * y_stride;
  float total = 0.0f, square = 0.0f;
  for (int col = threadIdx.x; col < cols; col += blockDim.x) total += wide(in[col]);
  const float mean = of_block(total, 0.0f, Add()) / cols;
  for (int col = threadIdx.x; col < cols; col += blockDim.x) square += (wide(in[col]) - mean) * (wide(in[col]) - mean);
  const float scale = rsqrtf(of_block(square, 0.0f, Add()) / cols + eps);
  for (int col = threadIdx.x; col < cols; col += blockDim.x) {
    out[col] = narrow((wide(in[col]) - mean) * scale * wide(weight[col]) + wide(bias[col]));
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
  const unsigned grid = static_cast<unsigned>(rows);
  constexpr int THREADS = 512;
  if (cols <= THREADS) layernorm_in_registers<1><<<grid, THREADS, 0, s>>>(x, x_stride, weight, bias, eps, y, y_stride, cols);
  else if (cols <= 4 * THREADS) layernorm_in_registers<4><<<grid, THREADS, 0, s>>>(x, x_stride, weight, bias, eps, y, y_stride, cols);
  else if (cols <= 8 * THREADS) layernorm_in_registers<8><<<grid, THREADS, 0, s>>>(x, x_stride, weight, bias, eps, y, y_stride, cols);
  else if (cols <= 16 * THREADS) layernorm_in_registers<16><<<grid, THREADS, 0, s>>>(x, x_stride, weight, bias, eps, y, y_stride, cols);
  else layernorm_of_any<<<grid, 1024, 0, s>>>(x, x_stride, weight, bias, eps, y, y_stride, cols);
  return cudaGetLastError();
}
