// GELU of x + bias in its tanh form: one block a row, one sweep.

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

// Packs at the beginning of a row: none where a pointer is not aligned for them.
__device__ inline int packs_of(uint64_t addresses, int cols) { return addresses % sizeof(Pack) == 0 ? cols / VECTOR : 0; }

__device__ inline uint64_t address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

__device__ inline float gelu(float value) {
  const float inner = 0.7978845608f * (value + 0.044715f * value * value * value);
  return 0.5f * value * (1.0f + tanhf(inner));
}

__global__ void __launch_bounds__(THREADS)
    bias_gelu(const Element* x, int64_t x_stride, const Element* bias, Element* y, int64_t y_stride, int cols) {
  const Element* in = x + blockIdx.x * x_stride;
  Element* out = y + blockIdx.x * y_stride;

  const int packs = packs_of(address(in) | address(out) | address(bias), cols);
#pragma unroll UNROLL
  for (int at = threadIdx.x; at < packs; at += THREADS) {
    Pack pack = reinterpret_cast<const Pack*>(in)[at];
    const Pack shift = reinterpret_cast<const Pack*>(bias)[at];
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) pack.at[i] = narrow(gelu(wide(pack.at[i]) + wide(shift.at[i])));
    reinterpret_cast<Pack*>(out)[at] = pack;
  }
  for (int col = packs * VECTOR + threadIdx.x; col < cols; col += THREADS) out[col] = narrow(gelu(wide(in[col]) + wide(bias[col])));
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 3) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  bias_gelu<<<static_cast<unsigned>(rows), THREADS, 0, static_cast<cudaStream_t>(stream)>>>(
      evokern::data<Element>(args[0]), evokern::row_stride(args[0]), evokern::data<Element>(args[1]), evokern::data<Element>(args[2]),
      evokern::row_stride(args[2]), cols);
  return cudaGetLastError();
}
