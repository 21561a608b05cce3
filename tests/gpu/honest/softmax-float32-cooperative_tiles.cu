// style: cooperative groups: a tile of 32 threads a row, cg::reduce
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "evokern.h"

using Element = float;

__device__ inline float wide(Element value) { return value; }
__device__ inline Element narrow(float value) { return value; }

namespace cg = cooperative_groups;

__global__ void softmax(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols, int64_t rows) {
  const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  const int64_t row = blockIdx.x * static_cast<int64_t>(tile.meta_group_size()) + tile.meta_group_rank();
  if (row >= rows) return;
  const Element* in = x + row * x_stride;
  Element* out = y + row * y_stride;
  float peak = -INFINITY;
  for (int col = tile.thread_rank(); col < cols; col += tile.size()) peak = fmaxf(peak, wide(in[col]));
  peak = cg::reduce(tile, peak, cg::greater<float>());
  float total = 0.0f;
  for (int col = tile.thread_rank(); col < cols; col += tile.size()) total += expf(wide(in[col]) - peak);
  total = cg::reduce(tile, total, cg::plus<float>());
  for (int col = tile.thread_rank(); col < cols; col += tile.size()) out[col] = narrow(expf(wide(in[col]) - peak) / total);
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 2) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  const Element* x = evokern::data<Element>(args[0]);
  Element* y = evokern::data<Element>(args[1]);
  const int64_t x_stride = evokern::row_stride(args[0]), y_stride = evokern::row_stride(args[1]);
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  softmax<<<static_cast<unsigned>((rows + 7) / 8), 256, 0, s>>>(x, x_stride, y, y_stride, cols, rows);
  return cudaGetLastError();
}
