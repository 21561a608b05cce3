// Sum of each row: one block a row.

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

// What one load moves.
struct alignas(VECTOR * sizeof(Element)) Pack {
  Element at[VECTOR];
};

__global__ void __launch_bounds__(THREADS) sum_rows(const Element* x, int64_t stride, Element* y, int cols) {
  const Element* row = x + blockIdx.x * stride;
  // No packs where the row is not aligned for them.
  const int packs = reinterpret_cast<uint64_t>(row) % sizeof(Pack) == 0 ? cols / VECTOR : 0;
  float total = 0.0f;
#pragma unroll UNROLL
  for (int at = threadIdx.x; at < packs; at += THREADS) {
    const Pack pack = reinterpret_cast<const Pack*>(row)[at];
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) total += wide(pack.at[i]);
  }
  for (int col = packs * VECTOR + threadIdx.x; col < cols; col += THREADS) total += wide(row[col]);

  __shared__ float parts[THREADS / 32];
#pragma unroll
  for (int by = 16; by > 0; by /= 2) total += __shfl_xor_sync(0xffffffffu, total, by);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < THREADS / 32; ++warp) total += parts[warp];
    y[blockIdx.x] = narrow(total);
  }
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 2) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  sum_rows<<<static_cast<unsigned>(rows), THREADS, 0, static_cast<cudaStream_t>(stream)>>>(
      evokern::data<Element>(args[0]), evokern::row_stride(args[0]), evokern::data<Element>(args[1]), cols);
  return cudaGetLastError();
}
