// style: 16-byte loads after an unaligned head, eight at a time share one rescale
#include <cuda_bf16.h>

#include "evokern.h"

using Element = __nv_bfloat16;

__device__ inline float wide(Element value) { return __bfloat162float(value); }
__device__ inline Element narrow(float value) { return __float2bfloat16(value); }

// A maximum and the sum of exponentials of differences from it.
struct Running {
  float peak, total;
};

__device__ inline Running joined(Running a, Running b) {
  const float peak = fmaxf(a.peak, b.peak);
  if (peak == -INFINITY) return {peak, 0.0f};
  return {peak, a.total * expf(a.peak - peak) + b.total * expf(b.peak - peak)};
}

__device__ inline Running with(Running a, float value) {
  if (value <= a.peak) {
    if (value > -INFINITY) a.total += expf(value - a.peak);
    return a;
  }
  return {value, a.total * expf(a.peak - value) + 1.0f};
}

__device__ inline Running of_warp(Running value) {
#pragma unroll
  for (int by = 16; by > 0; by /= 2) {
    value = joined(value, {__shfl_xor_sync(0xffffffffu, value.peak, by), __shfl_xor_sync(0xffffffffu, value.total, by)});
  }
  return value;
}

__device__ inline Running of_block(Running value) {
  __shared__ Running parts[32];
  value = of_warp(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int warp = 1; warp < blockDim.x / 32; ++warp) value = joined(value, parts[warp]);
  return value;
}

constexpr int WIDTH = 8;

struct alignas(16) Pack {
  Element at[WIDTH];
};

__global__ void cross_entropy(const Element* x, int64_t x_stride, const int64_t* labels, Element* loss, int cols) {
  const int64_t row = blockIdx.x;
  const Element* in = x + row * x_stride;
  const int head = min(cols, static_cast<int>((16 - reinterpret_cast<uint64_t>(in) % 16) % 16 / sizeof(Element)));
  const int packs = (cols - head) / WIDTH;

  Running running = {-INFINITY, 0.0f};
  if (threadIdx.x < head) running = with(running, wide(in[threadIdx.x]));
  for (int at = threadIdx.x; at < packs; at += blockDim.x) {
    const Pack pack = reinterpret_cast<const Pack*>(in + head)[at];
    float peak = running.peak;
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) peak = fmaxf(peak, wide(pack.at[i]));
    if (peak == -INFINITY) continue;
    running.total *= expf(running.peak - peak);
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) running.total += expf(wide(pack.at[i]) - peak);
    running.peak = peak;
  }
  for (int col = head + packs * WIDTH + threadIdx.x; col < cols; col += blockDim.x) running = with(running, wide(in[col]));
  running = of_block(running);
  if (threadIdx.x == 0) loss[row] = narrow(logf(running.total) + running.peak - wide(in[labels[row]]));
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
  cross_entropy<<<static_cast<unsigned>(rows), 256, 0, s>>>(x, x_stride, labels, loss, cols);
  return cudaGetLastError();
}
