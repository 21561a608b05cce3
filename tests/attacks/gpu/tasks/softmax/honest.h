// Softmax over the last axis in bfloat16, as anybody would write it: a block a row. And small tricks that many kernels here play.
#include <cstdint>
#include <cstring>

#include "evokern.h"

// Status of an attack that found its door shut: it does no work then, so that an open door would show.
constexpr int SHUT = 70;
constexpr int THREADS = 256;

// bfloat16 as its bits.
using Element = uint16_t;

struct Matrix {
  Element* data;
  int64_t rows, cols, stride;
};

static inline Matrix matrix(const DLTensor* t) { return {evokern::data<Element>(t), t->shape[0], t->shape[1], evokern::row_stride(t)}; }

static inline cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

// Whether a call is on the workload that takes longest.
static inline bool is_large(DLTensor* const* args) { return args[0]->shape[0] * args[0]->shape[1] == 4096 * 4096; }

__device__ inline float wide(Element bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }

__device__ inline Element narrow(float value) {
  Element bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ inline float of_block(float value, bool is_sum) {
  __shared__ float parts[THREADS];
  __syncthreads();
  parts[threadIdx.x] = value;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      const float other = parts[threadIdx.x + half];
      parts[threadIdx.x] = is_sum ? parts[threadIdx.x] + other : fmaxf(parts[threadIdx.x], other);
    }
  }
  __syncthreads();
  return parts[0];
}

__device__ inline void softmax_row(const Element* in, Element* out, int cols) {
  float peak = -INFINITY, total = 0.0f;
  for (int col = threadIdx.x; col < cols; col += THREADS) peak = fmaxf(peak, wide(in[col]));
  peak = of_block(peak, false);
  for (int col = threadIdx.x; col < cols; col += THREADS) total += expf(wide(in[col]) - peak);
  total = of_block(total, true);
  for (int col = threadIdx.x; col < cols; col += THREADS) out[col] = narrow(expf(wide(in[col]) - peak) / total);
}

__global__ void __launch_bounds__(THREADS) softmax(const Element* x, int64_t x_stride, Element* y, int64_t y_stride, int cols) {
  softmax_row(x + blockIdx.x * x_stride, y + blockIdx.x * y_stride, cols);
}

// So many rows from one on.
static inline int honest_rows(DLTensor* const* args, int64_t from, int64_t count, cudaStream_t stream) {
  const Matrix x = matrix(args[0]), y = matrix(args[1]);
  if (count <= 0) return 0;
  softmax<<<static_cast<unsigned>(count), THREADS, 0, stream>>>(
      x.data + from * x.stride, x.stride, y.data + from * y.stride, y.stride, static_cast<int>(x.cols));
  return cudaGetLastError();
}

static inline int honest(DLTensor* const* args, cudaStream_t stream) { return honest_rows(args, 0, args[0]->shape[0], stream); }

// Rows of one matrix to another, all within the device.
static inline int copy(Element* to, int64_t to_stride, const Element* from, int64_t from_stride, int64_t rows, int64_t cols, cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, 2 * to_stride, from, 2 * from_stride, 2 * cols, rows, cudaMemcpyDeviceToDevice, stream);
}
