// residual += x in place, then RMSNorm of it: y = residual / sqrt(mean(residual^2) + eps) * weight, one block a row, two sweeps.

#include "evokern.h"

#define THREADS 256  // tune: 64 128 256 512 1024
#define VECTOR 1  // tune: 1 2 4 8
constexpr int UNROLL = 1;  // tune: 1 2 4 8

// bfloat16 as its bits: the header of the vendor's type alone takes the compiler longer than this file.
using Element = uint16_t;

__device__ inline float wide(Element bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }

__device__ inline Element narrow(float value) {
  Element bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

// What one load or store moves.
struct alignas(VECTOR * sizeof(Element)) Pack {
  Element at[VECTOR];
};

// Packs at the beginning of a row: none where a pointer is not aligned for them.
__device__ inline int packs_of(uint64_t addresses, int cols) { return addresses % sizeof(Pack) == 0 ? cols / VECTOR : 0; }

__device__ inline uint64_t address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// The sum of a value over all threads; the same in every thread.
__device__ inline float sum_of_block(float value) {
  __shared__ float parts[THREADS / 32];
#pragma unroll
  for (int by = 16; by > 0; by /= 2) value += __shfl_xor_sync(0xffffffffu, value, by);
  __syncthreads();  // parts of an earlier call may still be read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int warp = 1; warp < THREADS / 32; ++warp) value += parts[warp];
  return value;
}

// In the second sweep each thread reads what it wrote itself in the first: both go through a row in the same way.
__global__ void __launch_bounds__(THREADS) add_rmsnorm(
    const Element* x, int64_t x_stride, Element* residual, int64_t residual_stride, const Element* weight, float eps, Element* y,
    int64_t y_stride, int cols) {
  const Element* in = x + blockIdx.x * x_stride;
  Element* sum = residual + blockIdx.x * residual_stride;
  Element* out = y + blockIdx.x * y_stride;
  const int packs = packs_of(address(in) | address(sum) | address(out) | address(weight), cols);

  float total = 0.0f;
#pragma unroll UNROLL
  for (int at = threadIdx.x; at < packs; at += THREADS) {
    Pack pack = reinterpret_cast<const Pack*>(sum)[at];
    const Pack more = reinterpret_cast<const Pack*>(in)[at];
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) {
      pack.at[i] = narrow(wide(pack.at[i]) + wide(more.at[i]));
      total += wide(pack.at[i]) * wide(pack.at[i]);
    }
    reinterpret_cast<Pack*>(sum)[at] = pack;
  }
  for (int col = packs * VECTOR + threadIdx.x; col < cols; col += THREADS) {
    sum[col] = narrow(wide(sum[col]) + wide(in[col]));
    total += wide(sum[col]) * wide(sum[col]);
  }
  const float scale = 1.0f / sqrtf(sum_of_block(total) / static_cast<float>(cols) + eps);

#pragma unroll UNROLL
  for (int at = threadIdx.x; at < packs; at += THREADS) {
    Pack pack = reinterpret_cast<const Pack*>(sum)[at];
    const Pack weights = reinterpret_cast<const Pack*>(weight)[at];
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) pack.at[i] = narrow(wide(pack.at[i]) * scale * wide(weights.at[i]));
    reinterpret_cast<Pack*>(out)[at] = pack;
  }
  for (int col = packs * VECTOR + threadIdx.x; col < cols; col += THREADS) out[col] = narrow(wide(sum[col]) * scale * wide(weight[col]));
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 5) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  const float eps = evokern::scalar<float>(args[3]);
  add_rmsnorm<<<static_cast<unsigned>(rows), THREADS, 0, static_cast<cudaStream_t>(stream)>>>(
      evokern::data<Element>(args[0]), evokern::row_stride(args[0]), evokern::data<Element>(args[1]), evokern::row_stride(args[1]),
      evokern::data<Element>(args[2]), eps, evokern::data<Element>(args[4]), evokern::row_stride(args[4]), cols);
  return cudaGetLastError();
}
