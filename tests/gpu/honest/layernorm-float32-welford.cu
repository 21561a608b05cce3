// style: Welford's running moments, joined by shuffles and in shared memory

#include "evokern.h"

using Element = float;

__device__ inline float wide(Element value) { return value; }
__device__ inline Element narrow(float value) { return value; }

// Count, mean and sum of squared distances from it; Chan, Golub and LeVeque 1983, The American Statistician 37(3).
struct Moments {
  float count, mean, square;
};

__device__ inline Moments joined(Moments a, Moments b) {
  const float count = a.count + b.count;
  if (count == 0.0f) return a;
  const float apart = b.mean - a.mean, share = b.count / count;
  return {count, a.mean + apart * share, a.square + b.square + apart * apart * a.count * share};
}

__device__ inline Moments of_warp(Moments value) {
#pragma unroll
  for (int by = 16; by > 0; by /= 2) {
    value = joined(value, {__shfl_xor_sync(0xffffffffu, value.count, by), __shfl_xor_sync(0xffffffffu, value.mean, by),
                           __shfl_xor_sync(0xffffffffu, value.square, by)});
  }
  return value;
}

__device__ inline Moments with(Moments a, float value) {
  const float count = a.count + 1.0f, apart = value - a.mean, mean = a.mean + apart / count;
  return {count, mean, a.square + apart * (value - mean)};
}

__device__ inline Moments of_block(Moments value) {
  __shared__ Moments parts[32];
  value = of_warp(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : Moments{0.0f, 0.0f, 0.0f};
  return of_warp(value);
}

__global__ void layernorm(const Element* x, int64_t x_stride, const Element* weight, const Element* bias, float eps, Element* y,
    int64_t y_stride, int cols) {
  const Element* in = x + blockIdx.x * x_stride;
  Element* out = y + blockIdx.x * y_stride;
  Moments moments = {0.0f, 0.0f, 0.0f};
  for (int col = threadIdx.x; col < cols; col += blockDim.x) moments = with(moments, wide(in[col]));
  moments = of_block(moments);
  const float mean = moments.mean, scale = rsqrtf(moments.square / cols + eps);
  for (int col = threadIdx.x; col < cols; col += blockDim.x) {
    out[col] = narrow((wide(in[col]) - mean) * scale * wide(weight[col]) + wide(bias[col]));
  }
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
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
  layernorm<<<static_cast<unsigned>(rows), 256, 0, s>>>(x, x_stride, weight, bias, eps, y, y_stride, cols);
  return cudaGetLastError();
}
