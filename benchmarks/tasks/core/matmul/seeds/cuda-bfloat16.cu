// Product of two matrices: a tile of the product a block, a square of it a thread, operands staged in shared memory as float32.

#include "evokern.h"

#define TILE 64  // tune: 32 64 128
#define DEPTH 16  // tune: 8 16 32
#define EACH 4  // tune: 2 4 8

// bfloat16 as its bits: the header of the vendor's type alone takes the compiler longer than this file.
using Element = uint16_t;

__device__ inline float wide(Element bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }

__device__ inline Element narrow(float value) {
  Element bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

constexpr int SIDE = TILE / EACH;
constexpr int THREADS = SIDE * SIDE;
static_assert(THREADS <= 1024, "a block has no more threads");

__global__ void __launch_bounds__(THREADS) multiply(const Element* a, int64_t a_stride, const Element* b, int64_t b_stride, Element* c,
                                                    int64_t c_stride, int64_t m, int64_t n, int64_t k, int64_t across) {
  __shared__ float left[DEPTH][TILE + 1];
  __shared__ float right[DEPTH][TILE];
  const int64_t first_row = blockIdx.x / across * TILE;
  const int64_t first_col = blockIdx.x % across * TILE;
  const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;

  float total[EACH][EACH] = {};
  for (int64_t start = 0; start < k; start += DEPTH) {
    for (int at = threadIdx.x; at < TILE * DEPTH; at += THREADS) {
      const int64_t row = first_row + at / DEPTH, inner = start + at % DEPTH;
      left[at % DEPTH][at / DEPTH] = row < m && inner < k ? wide(a[row * a_stride + inner]) : 0.0f;
    }
    for (int at = threadIdx.x; at < TILE * DEPTH; at += THREADS) {
      const int64_t inner = start + at / TILE, col = first_col + at % TILE;
      right[at / TILE][at % TILE] = inner < k && col < n ? wide(b[inner * b_stride + col]) : 0.0f;
    }
    __syncthreads();
    for (int inner = 0; inner < DEPTH; ++inner) {
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) total[i][j] += left[inner][y + i * SIDE] * right[inner][x + j * SIDE];
      }
    }
    __syncthreads();
  }

  for (int i = 0; i < EACH; ++i) {
    for (int j = 0; j < EACH; ++j) {
      const int64_t row = first_row + y + i * SIDE, col = first_col + x + j * SIDE;
      if (row < m && col < n) c[row * c_stride + col] = narrow(total[i][j]);
    }
  }
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 3) return 1;
  const int64_t m = args[0]->shape[0];
  const int64_t k = args[0]->shape[1];
  const int64_t n = args[1]->shape[1];
  const int64_t down = (m + TILE - 1) / TILE;
  const int64_t across = (n + TILE - 1) / TILE;
  multiply<<<static_cast<unsigned>(down * across), THREADS, 0, static_cast<cudaStream_t>(stream)>>>(
      evokern::data<Element>(args[0]), evokern::row_stride(args[0]), evokern::data<Element>(args[1]), evokern::row_stride(args[1]),
      evokern::data<Element>(args[2]), evokern::row_stride(args[2]), m, n, k, across);
  return cudaGetLastError();
}
