// style: two elements a load as __nv_bfloat162 where rows are aligned, a warp a row
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

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

__global__ void layernorm(const Element* x, int64_t x_stride, const Element* weight, const Element* bias, float eps, Element* y,
    int64_t y_stride, int cols, int64_t rows) {
  const int64_t row = blockIdx.x * static_cast<int64_t>(blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const Element* in = x + row * x_stride;
  Element* out = y + row * y_stride;
  const uint64_t addresses = reinterpret_cast<uint64_t>(in) | reinterpret_cast<uint64_t>(out);
  const int pairs = addresses % sizeof(__nv_bfloat162) == 0 ? cols / 2 : 0;
  const __nv_bfloat162* in_pairs = reinterpret_cast<const __nv_bfloat162*>(in);

  float total = 0.0f;
  for (int at = lane; at < pairs; at += 32) {
    const float2 pair = __bfloat1622float2(in_pairs[at]);
    total += pair.x + pair.y;
  }
  for (int col = 2 * pairs + lane; col < cols; col += 32) total += wide(in[col]);
  const float mean = of_warp(total, Add()) / cols;
  float square = 0.0f;
  for (int at = lane; at < pairs; at += 32) {
    const float2 pair = __bfloat1622float2(in_pairs[at]);
    square += (pair.x - mean) * (pair.x - mean) + (pair.y - mean) * (pair.y - mean);
  }
  for (int col = 2 * pairs + lane; col < cols; col += 32) square += (wide(in[col]) - mean) * (wide(in[col]) - mean);
  const float scale = rsqrtf(of_warp(square, Add()) / cols + eps);
  for (int at = lane; at < pairs; at += 32) {
    const float2 pair = __bfloat1622float2(in_pairs[at]);
    reinterpret_cast<__nv_bfloat162*>(out)[at] =
        __floats2bfloat162_rn((pair.x - mean) * scale * wide(weight[2 * at]) + wide(bias[2 * at]),
                              (pair.y - mean) * scale * wide(weight[2 * at + 1]) + wide(bias[2 * at + 1]));
  }
  for (int col = 2 * pairs + lane; col < cols; col += 32) {
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
  layernorm<<<static_cast<unsigned>((rows + 7) / 8), 256, 0, s>>>(x, x_stride, weight, bias, eps, y, y_stride, cols, rows);
  return cudaGetLastError();
}
