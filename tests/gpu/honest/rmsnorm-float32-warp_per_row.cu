// style: a warp a row, four floats a load where aligned, streaming stores

#include "evokern.h"

using Element = float;

__device__ inline float wide(Element value) { return value; }
__device__ inline Element narrow(float value) { return value; }

template <typename Combine>
__device__ inline float of_warp(float value, Combine combine) {
#pragma unroll
  for (int by = 16; by > 0; by /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, by));
  return value;
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

constexpr int WIDTH = 16 / sizeof(Element);

struct alignas(16) Pack {
  Element at[WIDTH];
};

__device__ inline bool are_aligned(const void* a, const void* b, const void* c) {
  return (reinterpret_cast<uint64_t>(a) | reinterpret_cast<uint64_t>(b) | reinterpret_cast<uint64_t>(c)) % 16 == 0;
}

__global__ void rmsnorm(const Element* x, int64_t x_stride, const Element* weight, float eps, Element* y, int64_t y_stride, int cols,
    int64_t rows) {
  const int64_t row = blockIdx.x * static_cast<int64_t>(blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const Element* in = x + row * x_stride;
  Element* out = y + row * y_stride;
  const int packs = are_aligned(in, out, weight) ? cols / WIDTH : 0;
  float total = 0.0f;
  for (int at = lane; at < packs; at += 32) {
    const float4 pack = __ldg(reinterpret_cast<const float4*>(in) + at);
    total += pack.x * pack.x + pack.y * pack.y + pack.z * pack.z + pack.w * pack.w;
  }
  for (int col = packs * WIDTH + lane; col < cols; col += 32) total += in[col] * in[col];
  total = of_warp(total, Add());
  const float scale = rsqrtf(total / cols + eps);
  for (int at = lane; at < packs; at += 32) {
    const float4 pack = __ldg(reinterpret_cast<const float4*>(in) + at), factor = __ldg(reinterpret_cast<const float4*>(weight) + at);
    __stcs(reinterpret_cast<float4*>(out) + at, make_float4(pack.x * scale * factor.x, pack.y * scale * factor.y,
                                                            pack.z * scale * factor.z, pack.w * scale * factor.w));
  }
  for (int col = packs * WIDTH + lane; col < cols; col += 32) __stcs(out + col, in[col] * scale * weight[col]);
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
  rmsnorm<<<static_cast<unsigned>((rows + 3) / 4), 128, 0, s>>>(x, x_stride, weight, eps, y, y_stride, cols, rows);
  return cudaGetLastError();
}
