// style: a cooperative launch: parts of rows, a barrier of the whole grid, then the scaling
#include <cooperative_groups.h>

#include "evokern.h"

namespace cg = cooperative_groups;

constexpr int SPAN = 4096, THREADS = 256;

__global__ void __launch_bounds__(THREADS) rmsnorm(const float* x, int64_t x_stride, const float* weight, float eps, float* y,
                                                   int64_t y_stride, int cols, int64_t rows, int parts, float* found) {
  __shared__ float of_warps[THREADS / 32];
  for (int64_t task = blockIdx.x; task < rows * parts; task += gridDim.x) {
    const float* in = x + task / parts * x_stride;
    const int part = task % parts, last = min(cols, (part + 1) * SPAN);
    float total = 0.0f;
    for (int col = part * SPAN + threadIdx.x; col < last; col += THREADS) total += in[col] * in[col];
    for (int by = 16; by > 0; by /= 2) total += __shfl_xor_sync(0xffffffffu, total, by);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int warp = 1; warp < THREADS / 32; ++warp) total += of_warps[warp];
      found[task] = total;
    }
    __syncthreads();
  }
  cg::this_grid().sync();
  for (int64_t task = blockIdx.x; task < rows * parts; task += gridDim.x) {
    const int64_t row = task / parts;
    const int part = task % parts, last = min(cols, (part + 1) * SPAN);
    float total = 0.0f;
    for (int i = 0; i < parts; ++i) total += found[row * parts + i];
    const float scale = rsqrtf(total / cols + eps);
    for (int col = part * SPAN + threadIdx.x; col < last; col += THREADS) {
      y[row * y_stride + col] = x[row * x_stride + col] * scale * weight[col];
    }
  }
}

extern "C" size_t workspace_size(DLTensor* const* args, int) {
  return args[0]->shape[0] * ((args[0]->shape[1] + SPAN - 1) / SPAN) * sizeof(float);
}

extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t, void* stream) {
  if (nargs != 4) return 1;
  int64_t rows = args[0]->shape[0];
  int cols = static_cast<int>(args[0]->shape[1]), parts = (cols + SPAN - 1) / SPAN;
  const float* x = evokern::data<float>(args[0]);
  const float* weight = evokern::data<float>(args[1]);
  float eps = evokern::scalar<float>(args[2]);
  float* y = evokern::data<float>(args[3]);
  int64_t x_stride = evokern::row_stride(args[0]), y_stride = evokern::row_stride(args[3]);
  float* found = static_cast<float*>(workspace);

  int device = 0, count = 0, each = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, rmsnorm, THREADS, 0);
  const int64_t most = static_cast<int64_t>(count) * each, wanted = rows * parts;
  void* values[] = {&x, &x_stride, &weight, &eps, &y, &y_stride, &cols, &rows, &parts, &found};
  return cudaLaunchCooperativeKernel(reinterpret_cast<void*>(rmsnorm), dim3(static_cast<unsigned>(wanted < most ? wanted : most)),
                                     dim3(THREADS), values, 0, static_cast<cudaStream_t>(stream));
}
