// One softmax by rows in many ways of launching it. `-DVARIANT=n` picks the way; what each is expected to come to is in runners.py.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include "evokern.h"

#define PLAIN 0
#define WORKSPACE 1
#define DEFAULT_STREAM 2
#define OWN_MEMORY 3
#define ILLEGAL_ADDRESS 4
#define WRITES_AN_INPUT 5
#define CLUSTERS 6
#define COOPERATIVE 7
#define OVERLAPPING 8
#define SIDE_STREAM 9
#define COPY_FIRST 10
#define MUCH_SHARED 11
#define CONSTANT_FROM_HOST 12
#define SYNCHRONISES 13
#define REMEMBERS 14
#define STRUCT_BY_VALUE 15
#define RETURNS_SEVEN 16
#define NEVER_ENDS 17
#define PARALLEL_STREAMS 18
#define WRITES_BEYOND 19

namespace cg = cooperative_groups;

struct Matrix {
  float* data;
  long long stride;
  int rows, cols;
};

__device__ float over_block(float value, bool is_sum) {
  __shared__ float part[256];
  part[threadIdx.x] = value;
  for (int half = 128; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      const float other = part[threadIdx.x + half];
      part[threadIdx.x] = is_sum ? part[threadIdx.x] + other : fmaxf(part[threadIdx.x], other);
    }
  }
  __syncthreads();
  const float result = part[0];
  __syncthreads();
  return result;
}

__device__ void softmax_row(const float* x, float* y, int cols) {
  float most = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < cols; i += 256) most = fmaxf(most, x[i]);
  most = over_block(most, false);
  for (int i = threadIdx.x; i < cols; i += 256) sum += expf(x[i] - most);
  sum = over_block(sum, true);
  for (int i = threadIdx.x; i < cols; i += 256) y[i] = expf(x[i] - most) / sum;
}

__global__ void softmax_rows(const float* x, long long x_stride, float* y, long long y_stride, int cols) {
#if VARIANT == OVERLAPPING
  cudaGridDependencySynchronize();
#endif
  softmax_row(x + blockIdx.x * x_stride, y + blockIdx.x * y_stride, cols);
}

__global__ void softmax_struct(Matrix x, Matrix y) {
  softmax_row(x.data + blockIdx.x * x.stride, y.data + blockIdx.x * y.stride, x.cols);
}

__global__ void softmax_shared(const float* x, long long x_stride, float* y, long long y_stride, int cols) {
  extern __shared__ float row[];
  for (int i = threadIdx.x; i < cols && i < 16384; i += 256) row[i] = x[blockIdx.x * x_stride + i];
  __syncthreads();
  softmax_row(x + blockIdx.x * x_stride, y + blockIdx.x * y_stride, cols);
  if (row[0] == 12345.678f) y[0] = row[0];
}

__constant__ float scale;

__global__ void softmax_scaled(const float* x, long long x_stride, float* y, long long y_stride, int cols) {
  softmax_row(x + blockIdx.x * x_stride, y + blockIdx.x * y_stride, cols);
  for (int i = threadIdx.x; i < cols; i += 256) y[blockIdx.x * y_stride + i] *= scale;
}

// Every row's exponentials, unscaled, and their sums by atomics into a workspace that was set to zero.
__global__ void exponentials(const float* x, long long x_stride, float* y, long long y_stride, int cols, float* sums) {
  x += blockIdx.x * x_stride;
  y += blockIdx.x * y_stride;
  float most = -INFINITY;
  for (int i = threadIdx.x; i < cols; i += 256) most = fmaxf(most, x[i]);
  most = over_block(most, false);
  float sum = 0;
  for (int i = threadIdx.x; i < cols; i += 256) sum += y[i] = expf(x[i] - most);
  sum = over_block(sum, true);
  if (threadIdx.x == 0) atomicAdd(sums + blockIdx.x, sum);
}

__global__ void divided(float* y, long long y_stride, int cols, const float* sums) {
  for (int i = threadIdx.x; i < cols; i += 256) y[blockIdx.x * y_stride + i] /= sums[blockIdx.x];
}

__global__ void softmax_cluster(const float* x, long long x_stride, float* y, long long y_stride, int cols) {
  cg::this_cluster().sync();
  softmax_row(x + blockIdx.x * x_stride, y + blockIdx.x * y_stride, cols);
}

__global__ void softmax_grid(const float* x, long long x_stride, float* y, long long y_stride, int cols, int rows) {
  cg::this_grid().sync();
  for (int row = blockIdx.x; row < rows; row += gridDim.x) softmax_row(x + row * x_stride, y + row * y_stride, cols);
}

__global__ void touch(float* y) {
  if (y == nullptr) *y = 0;
}

__global__ void spoil(float* where) { *where = 1.0f; }

__global__ void for_ever(volatile float* y) {
  while (y[0] != 12345.678f) {
  }
}

#if VARIANT == WORKSPACE
extern "C" size_t workspace_size(DLTensor* const* args, int) { return args[0]->shape[0] * sizeof(float); }
#endif

extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t workspace_bytes, void* to) {
  const DLTensor *in = args[0], *out = args[nargs - 1];
  if (in->device.device_type != 2 || out->device.device_type != 2) return 2;
  float *x = evokern::data<float>(in), *y = evokern::data<float>(out);
  const long long xs = evokern::row_stride(in), ys = evokern::row_stride(out);
  const int rows = in->shape[0], cols = in->shape[1];
  cudaStream_t stream = static_cast<cudaStream_t>(to);
#if VARIANT == WORKSPACE
  float* sums = static_cast<float*>(workspace);
  if (workspace_bytes < rows * sizeof(float)) return 3;
  cudaMemsetAsync(sums, 0, rows * sizeof(float), stream);
  exponentials<<<rows, 256, 0, stream>>>(x, xs, y, ys, cols, sums);
  divided<<<rows, 256, 0, stream>>>(y, ys, cols, sums);
#elif VARIANT == DEFAULT_STREAM
  softmax_rows<<<rows, 256>>>(x, xs, y, ys, cols);
#elif VARIANT == OWN_MEMORY
  static float* sums = nullptr;
  if (!sums) cudaMalloc(&sums, 1 << 20);
  cudaMemsetAsync(sums, 0, rows * sizeof(float), stream);
  exponentials<<<rows, 256, 0, stream>>>(x, xs, y, ys, cols, sums);
  divided<<<rows, 256, 0, stream>>>(y, ys, cols, sums);
#elif VARIANT == ILLEGAL_ADDRESS
  spoil<<<1, 1, 0, stream>>>(y + (1ll << 40));
#elif VARIANT == WRITES_AN_INPUT
  softmax_rows<<<rows, 256, 0, stream>>>(x, xs, y, ys, cols);
  spoil<<<1, 1, 0, stream>>>(x);
#elif VARIANT == CLUSTERS
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((rows + 1) / 2 * 2);
  config.blockDim = dim3(256);
  config.stream = stream;
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeClusterDimension;
  attribute[0].val.clusterDim.x = 2;
  attribute[0].val.clusterDim.y = attribute[0].val.clusterDim.z = 1;
  config.attrs = attribute;
  config.numAttrs = 1;
  const float* from = x;
  cudaLaunchKernelEx(&config, softmax_cluster, from, xs, y, ys, cols);
#elif VARIANT == COOPERATIVE
  const float* from = x;
  long long from_stride = xs, to_stride = ys;
  int columns = cols, count = rows;
  void* parameters[] = {&from, &from_stride, &y, &to_stride, &columns, &count};
  cudaLaunchCooperativeKernel(reinterpret_cast<void*>(softmax_grid), dim3(132), dim3(256), parameters, 0, stream);
#elif VARIANT == OVERLAPPING
  touch<<<1, 1, 0, stream>>>(y);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(rows);
  config.blockDim = dim3(256);
  config.stream = stream;
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attribute;
  config.numAttrs = 1;
  const float* from = x;
  cudaLaunchKernelEx(&config, softmax_rows, from, xs, y, ys, cols);
#elif VARIANT == SIDE_STREAM || VARIANT == PARALLEL_STREAMS
  static cudaStream_t side = nullptr;
  static cudaEvent_t forked, joined;
  if (!side) {
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&forked, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&joined, cudaEventDisableTiming);
  }
  cudaEventRecord(forked, stream);
  cudaStreamWaitEvent(side, forked, 0);
  softmax_rows<<<rows / 2, 256, 0, side>>>(x, xs, y, ys, cols);
#if VARIANT == PARALLEL_STREAMS
  softmax_rows<<<rows - rows / 2, 256, 0, stream>>>(x + rows / 2 * xs, xs, y + rows / 2 * ys, ys, cols);
  cudaEventRecord(joined, side);
  cudaStreamWaitEvent(stream, joined, 0);
#else
  cudaEventRecord(joined, side);
  cudaStreamWaitEvent(stream, joined, 0);
  softmax_rows<<<rows - rows / 2, 256, 0, stream>>>(x + rows / 2 * xs, xs, y + rows / 2 * ys, ys, cols);
#endif
#elif VARIANT == COPY_FIRST
  cudaMemcpy2DAsync(y, ys * sizeof(float), x, xs * sizeof(float), cols * sizeof(float), rows, cudaMemcpyDeviceToDevice, stream);
  softmax_rows<<<rows, 256, 0, stream>>>(y, ys, y, ys, cols);
#elif VARIANT == MUCH_SHARED
  cudaFuncSetAttribute(softmax_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 96 << 10);
  softmax_shared<<<rows, 256, 96 << 10, stream>>>(x, xs, y, ys, cols);
#elif VARIANT == CONSTANT_FROM_HOST
  static const float one = 1.0f;
  cudaMemcpyToSymbolAsync(scale, &one, sizeof one, 0, cudaMemcpyHostToDevice, stream);
  softmax_scaled<<<rows, 256, 0, stream>>>(x, xs, y, ys, cols);
#elif VARIANT == SYNCHRONISES
  softmax_rows<<<rows, 256, 0, stream>>>(x, xs, y, ys, cols);
  cudaStreamSynchronize(stream);
#elif VARIANT == REMEMBERS
  static float* first = nullptr;
  if (!first) first = x;
  touch<<<1, 1, 0, stream>>>(first);
  softmax_rows<<<rows, 256, 0, stream>>>(x, xs, y, ys, cols);
#elif VARIANT == STRUCT_BY_VALUE
  softmax_struct<<<rows, 256, 0, stream>>>(Matrix{x, xs, rows, cols}, Matrix{y, ys, rows, cols});
#elif VARIANT == RETURNS_SEVEN
  return 7;
#elif VARIANT == NEVER_ENDS
  for_ever<<<1, 1, 0, stream>>>(y);
#elif VARIANT == WRITES_BEYOND
  softmax_rows<<<rows, 256, 0, stream>>>(x, xs, y, ys, cols);
  spoil<<<1, 1, 0, stream>>>(y + rows * ys + (2ll << 20));
#else
  softmax_rows<<<rows, 256, 0, stream>>>(x, xs, y, ys, cols);
#endif
  return cudaGetLastError();
}
