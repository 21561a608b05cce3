// style: a row split over blocks, parts in the workspace, a second kernel that joins them

#include "evokern.h"

using Element = float;

__device__ inline float wide(Element value) { return value; }
__device__ inline Element narrow(float value) { return value; }

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

constexpr int SPAN = 4096;  // columns of one part

__global__ void reduce(const Element* x, int64_t x_stride, int cols, int parts, Running* found) {
  const Element* in = x + blockIdx.x / parts * x_stride;
  const int part = blockIdx.x % parts, last = min(cols, (part + 1) * SPAN);
  Running running = {-INFINITY, 0.0f};
  for (int col = part * SPAN + threadIdx.x; col < last; col += blockDim.x) running = with(running, wide(in[col]));
  running = of_block(running);
  if (threadIdx.x == 0) found[blockIdx.x] = running;
}

__global__ void normalise(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols, int parts, const Running* found) {
  const int64_t row = blockIdx.x / parts;
  const int part = blockIdx.x % parts, last = min(cols, (part + 1) * SPAN);
  Running running = {-INFINITY, 0.0f};
  for (int i = 0; i < parts; ++i) running = joined(running, found[row * parts + i]);
  for (int col = part * SPAN + threadIdx.x; col < last; col += blockDim.x) {
    y[row * y_stride + col] = narrow(expf(wide(x[row * x_stride + col]) - running.peak) / running.total);
  }
}

extern "C" size_t workspace_size(DLTensor* const* args, int) {
  return args[0]->shape[0] * ((args[0]->shape[1] + SPAN - 1) / SPAN) * sizeof(Running);
}

extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t, void* stream) {
  if (nargs != 2) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  const Element* x = evokern::data<Element>(args[0]);
  Element* y = evokern::data<Element>(args[1]);
  const int64_t x_stride = evokern::row_stride(args[0]), y_stride = evokern::row_stride(args[1]);
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  const int parts = (cols + SPAN - 1) / SPAN;
  const unsigned grid = static_cast<unsigned>(rows * parts);
  Running* found = static_cast<Running*>(workspace);
  reduce<<<grid, 256, 0, s>>>(x, x_stride, cols, parts, found);
  normalise<<<grid, 256, 0, s>>>(x, x_stride, y, y_stride, cols, parts, found);
  return cudaGetLastError();
}
