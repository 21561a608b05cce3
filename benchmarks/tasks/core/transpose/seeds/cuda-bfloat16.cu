// Transpose of a matrix, written out: a tile a block, turned in shared memory so that both sides are read and written along rows.

#include "evokern.h"

#define TILE 32  // tune: 16 32 64
#define ROWS 8  // tune: 4 8 16

using Element = uint16_t;  // bfloat16 is moved and never computed with

__global__ void __launch_bounds__(TILE* ROWS)
    transpose(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int64_t rows, int64_t cols, int64_t across) {
  __shared__ Element tile[TILE][TILE + 2];  // an odd number of words apart, so that a column lies in different banks
  const int64_t first_row = blockIdx.x / across * TILE;
  const int64_t first_col = blockIdx.x % across * TILE;

  for (int i = threadIdx.y; i < TILE; i += ROWS) {
    const int64_t row = first_row + i, col = first_col + threadIdx.x;
    if (row < rows && col < cols) tile[i][threadIdx.x] = x[row * x_stride + col];
  }
  __syncthreads();
  for (int i = threadIdx.y; i < TILE; i += ROWS) {
    const int64_t col = first_col + i, row = first_row + threadIdx.x;
    if (row < rows && col < cols) y[col * y_stride + row] = tile[threadIdx.x][i];
  }
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 2) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  const int64_t down = (rows + TILE - 1) / TILE;
  const int64_t across = (cols + TILE - 1) / TILE;
  transpose<<<static_cast<unsigned>(down * across), dim3(TILE, ROWS), 0, static_cast<cudaStream_t>(stream)>>>(
      evokern::data<Element>(args[0]), evokern::row_stride(args[0]), evokern::data<Element>(args[1]), evokern::row_stride(args[1]), rows,
      cols, across);
  return cudaGetLastError();
}
