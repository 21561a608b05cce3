// style: a row in registers, one of five instances by its length, a loop beyond

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

template <int EACH>
__global__ void softmax_in_registers(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols) {
  const Element* in = x + blockIdx.x * x_stride;
  Element* out = y + blockIdx.x * y_stride;
  float kept[EACH];
  float peak = -INFINITY;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int col = threadIdx.x + i * blockDim.x;
    kept[i] = col < cols ? wide(in[col]) : -INFINITY;
    peak = fmaxf(peak, kept[i]);
  }
  peak = of_block(peak, -INFINITY, Larger());
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    kept[i] = expf(kept[i] - peak);
    total += kept[i];
  }
  total = of_block(total, 0.0f, Add());
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int col = threadIdx.x + i * blockDim.x;
    if (col < cols) out[col] = narrow(kept[i] / total);
  }
}

__global__ void softmax_of_any(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols) {
  const Element* in = x + blockIdx.x * x_stride;
  Element* out = y + blockIdx.x * y_stride;
  float peak = -INFINITY, total = 0.0f;
  for (int col = threadIdx.x; col < cols; col += blockDim.x) peak = fmaxf(peak, wide(in[col]));
  peak = of_block(peak, -INFINITY, Larger());
  for (int col = threadIdx.x; col < cols; col += blockDim.x) total += expf(wide(in[col]) - peak);
  total = of_block(total, 0.0f, Add());
  for (int col = threadIdx.x; col < cols; col += blockDim.x) out[col] = narrow(expf(wide(in[col]) - peak) / total);
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 2) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  const Element* x = evokern::data<Element>(args[0]);
  Element* y = evokern::data<Element>(args[1]);
  const int64_t x_stride = evokern::row_stride(args[0]), y_stride = evokern::row_stride(args[1]);
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  const unsigned grid = static_cast<unsigned>(rows);
  constexpr int THREADS = 256;
  if (cols <= THREADS) softmax_in_registers<1><<<grid, THREADS, 0, s>>>(x, x_stride, y, y_stride, cols);
  else if (cols <= 4 * THREADS) softmax_in_registers<4><<<grid, THREADS, 0, s>>>(x, x_stride, y, y_stride, cols);
  else if (cols <= 8 * THREADS) softmax_in_registers<8><<<grid, THREADS, 0, s>>>(x, x_stride, y, y_stride, cols);
  else if (cols <= 16 * THREADS) softmax_in_registers<16><<<grid, THREADS, 0, s>>>(x, x_stride, y, y_stride, cols);
  else if (cols <= 32 * THREADS) softmax_in_registers<32><<<grid, THREADS, 0, s>>>(x, x_stride, y, y_stride, cols);
  else softmax_of_any<<<grid, 1024, 0, s>>>(x, x_stride, y, y_stride, cols);
  return cudaGetLastError();
}
