// style: persistent blocks that take rows from an atomic counter, which the last to leave sets back

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

__global__ void clear(unsigned* counters) { counters[0] = counters[1] = 0; }

__global__ void sum_rows(const Element* x, int64_t x_stride, Element* y, int cols, int64_t rows, unsigned* counters) {
  __shared__ unsigned taken;
  while (true) {
    __syncthreads();
    if (threadIdx.x == 0) taken = atomicAdd(&counters[0], 1u);
    __syncthreads();
    if (taken >= rows) break;
    float total = 0.0f;
    for (int col = threadIdx.x; col < cols; col += blockDim.x) total += x[taken * x_stride + col];
    total = of_block(total, 0.0f, Add());
    if (threadIdx.x == 0) y[taken] = total;
  }
  if (threadIdx.x == 0 && atomicAdd(&counters[1], 1u) == gridDim.x - 1) counters[0] = counters[1] = 0;
}

extern "C" size_t workspace_size(DLTensor* const* args, int) {
  return 2 * sizeof(unsigned);
}

extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t, void* stream) {
  if (nargs != 2) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  const Element* x = evokern::data<Element>(args[0]);
  Element* y = evokern::data<Element>(args[1]);
  const int64_t x_stride = evokern::row_stride(args[0]);
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  int device = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  unsigned* counters = static_cast<unsigned*>(workspace);
  clear<<<1, 1, 0, s>>>(counters);
  sum_rows<<<static_cast<unsigned>(rows < 6 * count ? rows : 6 * count), 256, 0, s>>>(x, x_stride, y, cols, rows, counters);
  return cudaGetLastError();
}
