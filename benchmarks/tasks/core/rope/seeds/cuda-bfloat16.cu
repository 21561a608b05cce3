// Rotary position embedding: each pair (x[i], x[i + half]) of a head is turned by its token's angle, one block a token.

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

struct Strides {
  int64_t row, head;
};

__global__ void __launch_bounds__(THREADS) rope(
    const Element* x, Strides x_strides, const Element* cos, int64_t cos_stride, const Element* sin, int64_t sin_stride, Element* y,
    Strides y_strides, int heads, int half) {
  const int64_t row = blockIdx.x;
  const Element* cosine = cos + row * cos_stride;
  const Element* sine = sin + row * sin_stride;
  x += row * x_strides.row;
  y += row * y_strides.row;

  // Packs of a half where every half of every head is aligned for them, else single elements.
  const uint64_t steps = static_cast<uint64_t>(x_strides.head) | static_cast<uint64_t>(y_strides.head) | static_cast<uint64_t>(half);
  const int packs = packs_of(address(x) | address(y) | address(cosine) | address(sine) | steps * sizeof(Element), half);
#pragma unroll UNROLL
  for (int at = threadIdx.x; at < heads * packs; at += THREADS) {
    const int head = at / packs;
    const int col = at % packs * VECTOR;
    const Element* in = x + head * x_strides.head + col;
    Element* out = y + head * y_strides.head + col;
    Pack first = *reinterpret_cast<const Pack*>(in);
    Pack second = *reinterpret_cast<const Pack*>(in + half);
    const Pack c = *reinterpret_cast<const Pack*>(cosine + col);
    const Pack s = *reinterpret_cast<const Pack*>(sine + col);
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) {
      const float a = wide(first.at[i]);
      const float b = wide(second.at[i]);
      first.at[i] = narrow(a * wide(c.at[i]) - b * wide(s.at[i]));
      second.at[i] = narrow(b * wide(c.at[i]) + a * wide(s.at[i]));
    }
    *reinterpret_cast<Pack*>(out) = first;
    *reinterpret_cast<Pack*>(out + half) = second;
  }
  if (packs > 0) return;
  for (int at = threadIdx.x; at < heads * half; at += THREADS) {
    const int head = at / half;
    const int col = at % half;
    const Element* in = x + head * x_strides.head + col;
    Element* out = y + head * y_strides.head + col;
    const float a = wide(in[0]);
    const float b = wide(in[half]);
    out[0] = narrow(a * wide(cosine[col]) - b * wide(sine[col]));
    out[half] = narrow(b * wide(cosine[col]) + a * wide(sine[col]));
  }
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 4) return 1;
  const int64_t rows = args[0]->shape[0];
  const int heads = static_cast<int>(args[0]->shape[1]);
  const int half = static_cast<int>(args[1]->shape[1]);
  rope<<<static_cast<unsigned>(rows), THREADS, 0, static_cast<cudaStream_t>(stream)>>>(
      evokern::data<Element>(args[0]), {args[0]->strides[0], args[0]->strides[1]}, evokern::data<Element>(args[1]),
      evokern::row_stride(args[1]), evokern::data<Element>(args[2]), evokern::row_stride(args[2]), evokern::data<Element>(args[3]),
      {args[3]->strides[0], args[3]->strides[1]}, heads, half);
  return cudaGetLastError();
}
