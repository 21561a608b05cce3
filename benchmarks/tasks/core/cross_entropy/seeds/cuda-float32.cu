// Cross-entropy of logits against class labels, log(sum(exp(logits))) - logits[label]: one block a row, two sweeps.

#include "evokern.h"

#define THREADS 256  // tune: 64 128 256 512 1024
#define VECTOR 1  // tune: 1 2 4
constexpr int UNROLL = 1;  // tune: 1 2 4 8

using Element = float;

__device__ inline float wide(Element value) { return value; }
__device__ inline Element narrow(float value) { return value; }

// What one load or store moves.
struct alignas(VECTOR * sizeof(Element)) Pack {
  Element at[VECTOR];
};

// Packs at the beginning of a row: none where it is not aligned for them.
__device__ inline int packs_of(uint64_t addresses, int cols) { return addresses % sizeof(Pack) == 0 ? cols / VECTOR : 0; }

__device__ inline uint64_t address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Calls `visit` with every element of a row that is this thread's.
template <typename Visit>
__device__ inline void sweep(const Element* row, int cols, Visit visit) {
  const int packs = packs_of(address(row), cols);
#pragma unroll UNROLL
  for (int at = threadIdx.x; at < packs; at += THREADS) {
    const Pack pack = reinterpret_cast<const Pack*>(row)[at];
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) visit(wide(pack.at[i]));
  }
  for (int col = packs * VECTOR + threadIdx.x; col < cols; col += THREADS) visit(wide(row[col]));
}

// A value of all threads, combined; the same in every thread.
template <typename Combine>
__device__ inline float of_block(float value, Combine combine) {
  __shared__ float parts[THREADS / 32];
#pragma unroll
  for (int by = 16; by > 0; by /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, by));
  __syncthreads();  // parts of an earlier call may still be read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int warp = 1; warp < THREADS / 32; ++warp) value = combine(value, parts[warp]);
  return value;
}

__global__ void __launch_bounds__(THREADS)
    cross_entropy(const Element* logits, int64_t stride, const int64_t* labels, Element* loss, int cols) {
  const Element* in = logits + blockIdx.x * stride;

  float peak = -INFINITY;
  sweep(in, cols, [&](float value) { peak = fmaxf(peak, value); });
  peak = of_block(peak, [](float a, float b) { return fmaxf(a, b); });

  float total = 0.0f;
  sweep(in, cols, [&](float value) { total += expf(value - peak); });
  total = of_block(total, [](float a, float b) { return a + b; });

  if (threadIdx.x == 0) loss[blockIdx.x] = narrow(logf(total) + (peak - wide(in[labels[blockIdx.x]])));
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 3) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  cross_entropy<<<static_cast<unsigned>(rows), THREADS, 0, static_cast<cudaStream_t>(stream)>>>(
      evokern::data<Element>(args[0]), evokern::row_stride(args[0]), evokern::data<int64_t>(args[1]), evokern::data<Element>(args[2]), cols);
  return cudaGetLastError();
}
