// style: cooperative groups: tiles reduce, their leaders meet in shared memory
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <cuda_bf16.h>

#include "evokern.h"

using Element = __nv_bfloat16;

__device__ inline float wide(Element value) { return __bfloat162float(value); }
__device__ inline Element narrow(float value) { return __float2bfloat16(value); }

namespace cg = cooperative_groups;

__global__ void rmsnorm(const Element* x, int64_t x_stride, const Element* weight, float eps, Element* y, int64_t y_stride, int cols) {
  const auto block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<32>(block);
  __shared__ float parts[32];
  const Element* in = x + blockIdx.x * x_stride;
  Element* out = y + blockIdx.x * y_stride;
  float total = 0.0f;
  for (int col = block.thread_rank(); col < cols; col += block.size()) total += wide(in[col]) * wide(in[col]);
  total = cg::reduce(tile, total, cg::plus<float>());
  if (tile.thread_rank() == 0) parts[tile.meta_group_rank()] = total;
  block.sync();
  total = tile.thread_rank() < tile.meta_group_size() ? parts[tile.thread_rank()] : 0.0f;
  total = cg::reduce(tile, total, cg::plus<float>());
  const float scale = rsqrtf(total / cols + eps);
  for (int col = block.thread_rank(); col < cols; col += block.size()) out[col] = narrow(wide(in[col]) * scale * wide(weight[col]));
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 4) return 1;
  const int64_t rows = args[0]->shape[0];
  const int cols = static_cast<int>(args[0]->shape[1]);
  const Element* x = evokern::data<Element>(args[0]);
  const Element* weight = evokern::data<Element>(args[1]);
  const float eps = evokern::scalar<float>(args[2]);
  Element* y = evokern::data<Element>(args[3]);
  const int64_t x_stride = evokern::row_stride(args[0]), y_stride = evokern::row_stride(args[3]);
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  rmsnorm<<<static_cast<unsigned>(rows), 384, 0, s>>>(x, x_stride, weight, eps, y, y_stride, cols);
  return cudaGetLastError();
}
