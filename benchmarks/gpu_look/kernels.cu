// Device code of the look: what a runner runs (spin), what the judge runs (snapshot, probe), and what moves memory.
// Built with nvcc -cubin; every name is extern "C" so that the driver finds it unmangled.
extern "C" {

__device__ __forceinline__ unsigned long long now_ns() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

// Busy for `ns` by the device's global timer; the last thread of every block then writes `word`.
__global__ void spin(unsigned long long ns, unsigned int *out, unsigned int word) {
    unsigned long long start = now_ns();
    while (now_ns() - start < ns) {
    }
    if (threadIdx.x == 0) out[blockIdx.x] = word;
}

// The smallest step of the global timer that one thread sees.
__global__ void timer_step(unsigned long long *out, int n) {
    unsigned long long last = now_ns();
    for (int i = 0; i < n;) {
        unsigned long long t = now_ns();
        if (t != last) {
            out[i++] = t - last;
            last = t;
        }
    }
}

// The judge's snapshot: the first words of each window to private memory, one block a window.
__global__ void snapshot(unsigned int *const *windows, unsigned int *to, int words) {
    for (int i = threadIdx.x; i < words; i += blockDim.x) to[blockIdx.x * words + i] = windows[blockIdx.x][i];
}

// What stands in the windows before a call.
__global__ void mark(unsigned int *const *windows, unsigned int word, int words) {
    for (int i = threadIdx.x; i < words; i += blockDim.x) windows[blockIdx.x][i] = word;
}

__global__ void fill(unsigned int *out, unsigned int word, long n) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x) out[i] = word + (unsigned)i;
}

__global__ void copy4(const uint4 *from, uint4 *to, long n) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x) to[i] = from[i];
}

// Reads everything; the sum is written only where it has an unlikely value, so that the loads cannot be left out.
__global__ void read4(const uint4 *from, unsigned int *out, long n) {
    unsigned int sum = 0;
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x) {
        uint4 v = from[i];
        sum += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 0x9e3779b9u) out[0] = sum;
}

__global__ void write4(uint4 *to, unsigned int word, long n) {
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x)
        to[i] = make_uint4(word, word, word, word);
}
}
