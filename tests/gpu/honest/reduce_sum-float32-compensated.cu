// style: Kahan's compensated sums in every thread, and in the tree that joins them

#include "evokern.h"

using Element = float;

__device__ inline float wide(Element value) { return value; }
__device__ inline Element narrow(float value) { return value; }

// A sum and what rounding took from it; Kahan 1965, Communications of the ACM 8(1). The intrinsics keep the compiler from
// contracting anything.
struct Sum {
  float total, lost;
};

__device__ inline Sum plus(Sum a, float value) {
  const float wanted = __fsub_rn(value, a.lost), total = __fadd_rn(a.total, wanted);
  return {total, __fsub_rn(__fsub_rn(total, a.total), wanted)};
}

__global__ void sum_rows(const Element* x, int64_t x_stride, Element* y, int cols) {
  __shared__ Sum parts[256];
  const Element* in = x + blockIdx.x * x_stride;
  Sum sum = {0.0f, 0.0f};
  for (int col = threadIdx.x; col < cols; col += blockDim.x) sum = plus(sum, in[col]);
  parts[threadIdx.x] = sum;
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      const Sum other = parts[threadIdx.x + half];
      parts[threadIdx.x] = plus(plus(parts[threadIdx.x], other.total), -other.lost);
    }
  }
  if (threadIdx.x == 0) y[blockIdx.x] = parts[0].total - parts[0].lost;
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 2) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  const Element* x = evokern::data<Element>(args[0]);
  Element* y = evokern::data<Element>(args[1]);
  const int64_t x_stride = evokern::row_stride(args[0]);
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  sum_rows<<<static_cast<unsigned>(rows), 256, 0, s>>>(x, x_stride, y, cols);
  return cudaGetLastError();
}
