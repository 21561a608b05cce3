// style: 16-byte loads after an unaligned head, online maximum and sum, two sweeps
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

// Elements before the first aligned pack.
__device__ inline int head_of(const Element* row, int cols) {
  const int head = static_cast<int>((16 - reinterpret_cast<uint64_t>(row) % 16) % 16 / sizeof(Element));
  return head < cols ? head : cols;
}

__global__ void softmax(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols) {
  const Element* in = x + blockIdx.x * x_stride;
  Element* out = y + blockIdx.x * y_stride;
  const int head = head_of(in, cols), packs = (cols - head) / WIDTH;
  const Pack* body = reinterpret_cast<const Pack*>(in + head);

  Running running = {-INFINITY, 0.0f};
  if (threadIdx.x < head) running = with(running, wide(in[threadIdx.x]));
  for (int at = threadIdx.x; at < packs; at += blockDim.x) {
    const Pack pack = body[at];
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) running = with(running, wide(pack.at[i]));
  }
  for (int col = head + packs * WIDTH + threadIdx.x; col < cols; col += blockDim.x) running = with(running, wide(in[col]));
  running = of_block(running);

  const float scale = 1.0f / running.total;
  if (threadIdx.x < head) out[threadIdx.x] = narrow(expf(wide(in[threadIdx.x]) - running.peak) * scale);
  const bool aligned = reinterpret_cast<uint64_t>(out + head) % 16 == 0;
  for (int at = threadIdx.x; at < packs; at += blockDim.x) {
    Pack pack = body[at];
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) pack.at[i] = narrow(expf(wide(pack.at[i]) - running.peak) * scale);
    if (aligned) {
      reinterpret_cast<Pack*>(out + head)[at] = pack;
    } else {
      for (int i = 0; i < WIDTH; ++i) out[head + at * WIDTH + i] = pack.at[i];
    }
  }
  for (int col = head + packs * WIDTH + threadIdx.x; col < cols; col += blockDim.x) {
    out[col] = narrow(expf(wide(in[col]) - running.peak) * scale);
  }
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 2) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  const Element* x = evokern::data<Element>(args[0]);
  Element* y = evokern::data<Element>(args[1]);
  const int64_t x_stride = evokern::row_stride(args[0]), y_stride = evokern::row_stride(args[1]);
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  softmax<<<static_cast<unsigned>(rows), 256, 0, s>>>(x, x_stride, y, y_stride, cols);
  return cudaGetLastError();
}
