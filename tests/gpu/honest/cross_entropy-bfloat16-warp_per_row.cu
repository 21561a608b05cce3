// style: a warp a row, two sweeps, the loss by lane 0
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

__global__ void cross_entropy(const Element* x, int64_t x_stride, const int64_t* labels, Element* loss, int cols, int64_t rows) {
  const int64_t row = blockIdx.x * static_cast<int64_t>(blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const Element* in = x + row * x_stride;
  float peak = -INFINITY, total = 0.0f;
  for (int col = lane; col < cols; col += 32) peak = fmaxf(peak, wide(in[col]));
  peak = of_warp(peak, Larger());
  for (int col = lane; col < cols; col += 32) total += expf(wide(in[col]) - peak);
  total = of_warp(total, Add());
  if (lane == 0) loss[row] = narrow(logf(total) + peak - wide(in[labels[row]]));
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 3) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  const Element* x = evokern::data<Element>(args[0]);
  const int64_t* labels = evokern::data<int64_t>(args[1]);
  Element* loss = evokern::data<Element>(args[2]);
  const int64_t x_stride = evokern::row_stride(args[0]);
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  cross_entropy<<<static_cast<unsigned>((rows + 7) / 8), 256, 0, s>>>(x, x_stride, labels, loss, cols, rows);
  return cudaGetLastError();
}
