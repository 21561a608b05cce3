// A candidate in CUDA with a launch list of two: row sums through a workspace, then the rows divided by them.
#include <cuda_runtime.h>

__global__ void row_sums(const float *x, float *sums, int cols) {
    __shared__ float part[256];
    float sum = 0;
    for (int i = threadIdx.x; i < cols; i += 256) sum += x[(long)blockIdx.x * cols + i];
    part[threadIdx.x] = sum;
    for (int half = 128; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

__global__ void divide(const float *x, const float *sums, float *y, int cols) {
    for (int i = threadIdx.x; i < cols; i += blockDim.x) y[(long)blockIdx.x * cols + i] = x[(long)blockIdx.x * cols + i] / sums[blockIdx.x];
}

extern "C" int run(const float *x, float *workspace, float *y, int rows, int cols, cudaStream_t stream) {
    row_sums<<<rows, 256, 0, stream>>>(x, workspace, cols);
    divide<<<rows, 256, 0, stream>>>(x, workspace, y, cols);
    return cudaGetLastError();
}
