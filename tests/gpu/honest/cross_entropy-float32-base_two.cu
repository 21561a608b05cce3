// style: exponentials and the logarithm in base two, several accumulators a thread

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

constexpr float LOG2E = 1.4426950408889634f, LN2 = 0.6931471805599453f;

__global__ void cross_entropy(const Element* x, int64_t x_stride, const int64_t* labels, Element* loss, int cols) {
  const int64_t row = blockIdx.x;
  const Element* in = x + row * x_stride;
  float peaks[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, totals[4] = {};
  const int step = 4 * blockDim.x;
  for (int first = threadIdx.x; first < cols; first += step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int col = first + i * blockDim.x;
      if (col < cols) peaks[i] = fmaxf(peaks[i], wide(in[col]));
    }
  }
  const float peak = of_block(fmaxf(fmaxf(peaks[0], peaks[1]), fmaxf(peaks[2], peaks[3])), -INFINITY, Larger());
  for (int first = threadIdx.x; first < cols; first += step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int col = first + i * blockDim.x;
      if (col < cols) totals[i] += exp2f((wide(in[col]) - peak) * LOG2E);
    }
  }
  const float total = of_block(totals[0] + totals[1] + totals[2] + totals[3], 0.0f, Add());
  if (threadIdx.x == 0) loss[row] = narrow(log2f(total) * LN2 + (peak - wide(in[labels[row]])));
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
