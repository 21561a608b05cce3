// Our own device code: what holds a stream, what makes caches cold, what tells that the device is free, and what ceilings are
// measured with. instruments.ptx is what a compiler made of this file (its first lines say how), so that a machine without nvcc
// needs an assembler only.
extern "C" {

__device__ __forceinline__ unsigned long long now_ns() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// One thread that is busy for so long: what is enqueued meanwhile starts without a gap.
__global__ void evokern_spin(unsigned long long ns) {
  const unsigned long long start = now_ns();
  while (now_ns() - start < ns) {
  }
}

// Reads everything; writes only where the sum has an unlikely value, so that no load can be left out and no line gets dirty.
__global__ void evokern_read(const uint4* __restrict__ from, long long n, unsigned int* never) {
  unsigned int sum = 0;
  const long long step = (long long)gridDim.x * blockDim.x;
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (; i + 3 * step < n; i += 4 * step) {
    const uint4 a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
    sum += (a.x ^ a.y ^ a.z ^ a.w) + (b.x ^ b.y ^ b.z ^ b.w) + (c.x ^ c.y ^ c.z ^ c.w) + (d.x ^ d.y ^ d.z ^ d.w);
  }
  for (; i < n; i += step) sum += from[i].x ^ from[i].y ^ from[i].z ^ from[i].w;
  if (sum == 0x9e3779b9u) *never = sum;
}

__global__ void evokern_write(uint4* to, long long n, unsigned int word) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) to[i] = make_uint4(word, word, word, word);
}

__global__ void evokern_copy(const uint4* __restrict__ from, uint4* to, long long n) {
  const long long step = (long long)gridDim.x * blockDim.x;
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (; i + 3 * step < n; i += 4 * step) {
    const uint4 a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
    to[i] = a;
    to[i + step] = b;
    to[i + 2 * step] = c;
    to[i + 3 * step] = d;
  }
  for (; i < n; i += step) to[i] = from[i];
}

__global__ void evokern_nothing() {}

// As many steps as asked for, each waiting for the one before it: the same time whenever the device is free.
__global__ void evokern_probe(int steps, unsigned int* never) {
  float x = threadIdx.x;
  for (int i = 0; i < steps; ++i) x = fmaf(x, 0.5f, 1.0f);
  if (x == -1.0f) *never = 1;
}

// 16 multiply-adds a step and thread, none of which waits for another of its step.
__global__ void evokern_multiply_add(int steps, unsigned int* never) {
  float x[16];
  for (int k = 0; k < 16; ++k) x[k] = threadIdx.x + k;
#pragma unroll 4
  for (int i = 0; i < steps; ++i) {
#pragma unroll
    for (int k = 0; k < 16; ++k) x[k] = fmaf(x[k], 0.5f, 1.0f);
  }
  float sum = 0;
  for (int k = 0; k < 16; ++k) sum += x[k];
  if (sum == -1.0f) *never = 1;
}
}
