// style: two rounds of atomic adds on the workspace, sums and then squared distances from the mean, five kernels

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

__global__ void clear(float* totals, int64_t count) {
  const int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (at < count) totals[at] = 0.0f;
}

__global__ void add_up(const Element* x, int64_t x_stride, int cols, int parts, float* totals) {
  const int64_t row = blockIdx.x / parts;
  const int part = blockIdx.x % parts, last = min(cols, (part + 1) * SPAN);
  float total = 0.0f;
  for (int col = part * SPAN + threadIdx.x; col < last; col += blockDim.x) total += wide(x[row * x_stride + col]);
  total = of_block(total, 0.0f, Add());
  if (threadIdx.x == 0) atomicAdd(&totals[row], total);
}

__global__ void add_squares(const Element* x, int64_t x_stride, int cols, int parts, const float* totals, float* squares) {
  const int64_t row = blockIdx.x / parts;
  const int part = blockIdx.x % parts, last = min(cols, (part + 1) * SPAN);
  const float mean = totals[row] / cols;
  float square = 0.0f;
  for (int col = part * SPAN + threadIdx.x; col < last; col += blockDim.x) {
    const float apart = wide(x[row * x_stride + col]) - mean;
    square += apart * apart;
  }
  square = of_block(square, 0.0f, Add());
  if (threadIdx.x == 0) atomicAdd(&squares[row], square);
}

__global__ void apply(const Element* x, int64_t x_stride, const Element* weight, const Element* bias, float eps, Element* y,
    int64_t y_stride, int cols, int parts, const float* totals, const float* squares) {
  const int64_t row = blockIdx.x / parts;
  const int part = blockIdx.x % parts, last = min(cols, (part + 1) * SPAN);
  const Element* in = x + row * x_stride;
  Element* out = y + row * y_stride;
  const float mean = totals[row] / cols, scale = rsqrtf(squares[row] / cols + eps);
  for (int col = part * SPAN + threadIdx.x; col < last; col += blockDim.x) {
    out[col] = narrow((wide(in[col]) - mean) * scale * wide(weight[col]) + wide(bias[col]));
  }
}

extern "C" size_t workspace_size(DLTensor* const* args, int) {
  return args[0]->shape[0] * 2 * sizeof(float);
}

extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t, void* stream) {
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
  const int parts = (cols + SPAN - 1) / SPAN;
  const unsigned grid = static_cast<unsigned>(rows * parts);
  float* totals = static_cast<float*>(workspace);
  float* squares = totals + rows;
  clear<<<static_cast<unsigned>((2 * rows + 255) / 256), 256, 0, s>>>(totals, 2 * rows);
  add_up<<<grid, 256, 0, s>>>(x, x_stride, cols, parts, totals);
  add_squares<<<grid, 256, 0, s>>>(x, x_stride, cols, parts, totals, squares);
  apply<<<grid, 256, 0, s>>>(x, x_stride, weight, bias, eps, y, y_stride, cols, parts, totals, squares);
  return cudaGetLastError();
}
