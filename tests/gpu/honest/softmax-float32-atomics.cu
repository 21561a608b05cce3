// style: maxima and sums by atomics on the workspace, four kernels

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

constexpr int SPAN = 4096;  // columns of one part

// In the order of the numbers: floats of either sign as integers.
__device__ inline int ordered(float value) {
  const int bits = __float_as_int(value);
  return bits >= 0 ? bits : bits ^ 0x7fffffff;
}
__device__ inline float number(int order) { return __int_as_float(order >= 0 ? order : order ^ 0x7fffffff); }

__global__ void clear(int* peaks, float* totals, int64_t rows) {
  const int64_t row = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (row >= rows) return;
  peaks[row] = ordered(-INFINITY);
  totals[row] = 0.0f;
}

__global__ void find_peaks(const Element* x, int64_t x_stride, int cols, int parts, int* peaks) {
  const int64_t row = blockIdx.x / parts;
  const int part = blockIdx.x % parts, last = min(cols, (part + 1) * SPAN);
  float peak = -INFINITY;
  for (int col = part * SPAN + threadIdx.x; col < last; col += blockDim.x) peak = fmaxf(peak, wide(x[row * x_stride + col]));
  peak = of_block(peak, -INFINITY, Larger());
  if (threadIdx.x == 0) atomicMax(&peaks[row], ordered(peak));
}

__global__ void add_up(const Element* x, int64_t x_stride, int cols, int parts, const int* peaks, float* totals) {
  const int64_t row = blockIdx.x / parts;
  const int part = blockIdx.x % parts, last = min(cols, (part + 1) * SPAN);
  const float peak = number(peaks[row]);
  float total = 0.0f;
  for (int col = part * SPAN + threadIdx.x; col < last; col += blockDim.x) total += expf(wide(x[row * x_stride + col]) - peak);
  total = of_block(total, 0.0f, Add());
  if (threadIdx.x == 0) atomicAdd(&totals[row], total);
}

__global__ void normalise(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols, int parts, const int* peaks,
    const float* totals) {
  const int64_t row = blockIdx.x / parts;
  const int part = blockIdx.x % parts, last = min(cols, (part + 1) * SPAN);
  const float peak = number(peaks[row]), total = totals[row];
  for (int col = part * SPAN + threadIdx.x; col < last; col += blockDim.x) {
    y[row * y_stride + col] = narrow(expf(wide(x[row * x_stride + col]) - peak) / total);
  }
}

extern "C" size_t workspace_size(DLTensor* const* args, int) {
  return args[0]->shape[0] * (sizeof(int) + sizeof(float));
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
  int* peaks = static_cast<int*>(workspace);
  float* totals = reinterpret_cast<float*>(peaks + rows);
  clear<<<static_cast<unsigned>((rows + 255) / 256), 256, 0, s>>>(peaks, totals, rows);
  find_peaks<<<grid, 256, 0, s>>>(x, x_stride, cols, parts, peaks);
  add_up<<<grid, 256, 0, s>>>(x, x_stride, cols, parts, peaks, totals);
  normalise<<<grid, 256, 0, s>>>(x, x_stride, y, y_stride, cols, parts, peaks, totals);
  return cudaGetLastError();
}
