// style: a cluster of four blocks a row, which read one another's shared memory
#include <cooperative_groups.h>

#include "evokern.h"

namespace cg = cooperative_groups;

constexpr int BLOCKS = 4, THREADS = 256;

__device__ inline float of_warp(float value, bool adds) {
#pragma unroll
  for (int by = 16; by > 0; by /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, by);
    value = adds ? value + other : fmaxf(value, other);
  }
  return value;
}

// Of a block, then of its cluster.
__device__ inline float of_cluster(float value, bool adds, float* parts, float* of_block) {
  const cg::cluster_group cluster = cg::this_cluster();
  value = of_warp(value, adds);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < THREADS / 32; ++warp) value = adds ? value + parts[warp] : fmaxf(value, parts[warp]);
    *of_block = value;
  }
  cluster.sync();
  value = *cluster.map_shared_rank(of_block, 0);
  for (int rank = 1; rank < BLOCKS; ++rank) {
    const float other = *cluster.map_shared_rank(of_block, rank);
    value = adds ? value + other : fmaxf(value, other);
  }
  cluster.sync();  // nobody leaves, or writes again, while others read
  return value;
}

__global__ void __launch_bounds__(THREADS) softmax(const float* x, int64_t x_stride, float* y, int64_t y_stride, int cols) {
  __shared__ float parts[THREADS / 32], of_block;
  const int64_t row = blockIdx.x / BLOCKS;
  const float* in = x + row * x_stride;
  float* out = y + row * y_stride;
  const int first = blockIdx.x % BLOCKS * THREADS + threadIdx.x;
  float peak = -INFINITY, total = 0.0f;
  for (int col = first; col < cols; col += BLOCKS * THREADS) peak = fmaxf(peak, in[col]);
  peak = of_cluster(peak, false, parts, &of_block);
  for (int col = first; col < cols; col += BLOCKS * THREADS) total += expf(in[col] - peak);
  total = of_cluster(total, true, parts, &of_block);
  for (int col = first; col < cols; col += BLOCKS * THREADS) out[col] = expf(in[col] - peak) / total;
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  if (nargs != 2) return 1;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = BLOCKS;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(args[0]->shape[0] * BLOCKS));
  config.blockDim = dim3(THREADS);
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, softmax, static_cast<const float*>(evokern::data<float>(args[0])), evokern::row_stride(args[0]),
                            evokern::data<float>(args[1]), evokern::row_stride(args[1]), static_cast<int>(args[0]->shape[1]));
}
