// silu(gate) * up: one block a row, one sweep.

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

__device__ inline float silu(float value) { return value / (1.0f + __expf(-value)); }

__global__ void __launch_bounds__(THREADS) swiglu(
    const Element* gate, int64_t gate_stride, const Element* up, int64_t up_stride, Element* y, int64_t y_stride, int cols) {
  const Element* left = gate + blockIdx.x * gate_stride;
  const Element* right = up + blockIdx.x * up_stride;
  Element* out = y + blockIdx.x * y_stride;

  const int packs = packs_of(address(left) | address(right) | address(out), cols);
#pragma unroll UNROLL
  for (int at = threadIdx.x; at < packs; at += THREADS) {
    Pack pack = reinterpret_cast<const Pack*>(left)[at];
    const Pack factors = reinterpret_cast<const Pack*>(right)[at];
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) pack.at[i] = narrow(silu(wide(pack.at[i])) * wide(factors.at[i]));
    reinterpret_cast<Pack*>(out)[at] = pack;
  }
  for (int col = packs * VECTOR + threadIdx.x; col < cols; col += THREADS) out[col] = narrow(silu(wide(left[col])) * wide(right[col]));
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 3) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  swiglu<<<static_cast<unsigned>(rows), THREADS, 0, static_cast<cudaStream_t>(stream)>>>(
      evokern::data<Element>(args[0]), evokern::row_stride(args[0]), evokern::data<Element>(args[1]), evokern::row_stride(args[1]),
      evokern::data<Element>(args[2]), evokern::row_stride(args[2]), cols);
  return cudaGetLastError();
}
