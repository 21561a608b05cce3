// HIP's run time and kernel language, as far as kernels use them, on CUDA: every name is CUDA's own under HIP's spelling.
//
// For building HIP sources with nvcc. What runs is CUDA on an NVIDIA GPU: it tells whether a source is right, and nothing about how
// fast it is on an AMD one. Kernels must use warpSize and never 64. MFMA, DPP and ds_* builtins have no counterpart here.
// Names: HIP API reference, https://rocm.docs.amd.com/projects/HIP.
#ifndef EVOKERN_HIP_RUNTIME_H_
#define EVOKERN_HIP_RUNTIME_H_

#include <cuda_runtime.h>
#include <stdint.h>

#ifndef __HIP_PLATFORM_NVIDIA__
#define __HIP_PLATFORM_NVIDIA__ 1
#endif

using hipError_t = cudaError_t;
using hipStream_t = cudaStream_t;
using hipEvent_t = cudaEvent_t;
using hipDeviceProp_t = cudaDeviceProp;
using hipDeviceAttribute_t = cudaDeviceAttr;
using hipFuncAttribute = cudaFuncAttribute;
using hipFuncAttributes = cudaFuncAttributes;
using hipMemcpyKind = cudaMemcpyKind;

#define hipSuccess cudaSuccess
#define hipErrorInvalidValue cudaErrorInvalidValue
#define hipErrorOutOfMemory cudaErrorMemoryAllocation
#define hipErrorNotReady cudaErrorNotReady
#define hipErrorUnknown cudaErrorUnknown

#define hipMemcpyHostToHost cudaMemcpyHostToHost
#define hipMemcpyHostToDevice cudaMemcpyHostToDevice
#define hipMemcpyDeviceToHost cudaMemcpyDeviceToHost
#define hipMemcpyDeviceToDevice cudaMemcpyDeviceToDevice
#define hipMemcpyDefault cudaMemcpyDefault

#define hipStreamDefault cudaStreamDefault
#define hipStreamNonBlocking cudaStreamNonBlocking
#define hipEventDefault cudaEventDefault
#define hipEventDisableTiming cudaEventDisableTiming

#define hipFuncAttributeMaxDynamicSharedMemorySize cudaFuncAttributeMaxDynamicSharedMemorySize
#define hipFuncAttributePreferredSharedMemoryCarveout cudaFuncAttributePreferredSharedMemoryCarveout

#define hipDeviceAttributeMultiprocessorCount cudaDevAttrMultiProcessorCount
#define hipDeviceAttributeMaxThreadsPerBlock cudaDevAttrMaxThreadsPerBlock
#define hipDeviceAttributeMaxThreadsPerMultiProcessor cudaDevAttrMaxThreadsPerMultiProcessor
#define hipDeviceAttributeMaxSharedMemoryPerBlock cudaDevAttrMaxSharedMemoryPerBlock
#define hipDeviceAttributeWarpSize cudaDevAttrWarpSize
#define hipDeviceAttributeL2CacheSize cudaDevAttrL2CacheSize
#define hipDeviceAttributeComputeCapabilityMajor cudaDevAttrComputeCapabilityMajor
#define hipDeviceAttributeComputeCapabilityMinor cudaDevAttrComputeCapabilityMinor

#define EVOKERN_HIP_FORWARD(hip, cuda)                                      \
  template <typename... Arguments>                                          \
  static inline auto hip(Arguments... arguments)->decltype(cuda(arguments...)) { \
    return cuda(arguments...);                                              \
  }

EVOKERN_HIP_FORWARD(hipGetDevice, cudaGetDevice)
EVOKERN_HIP_FORWARD(hipDeviceGetAttribute, cudaDeviceGetAttribute)
EVOKERN_HIP_FORWARD(hipGetDeviceProperties, cudaGetDeviceProperties)
EVOKERN_HIP_FORWARD(hipDeviceSynchronize, cudaDeviceSynchronize)
EVOKERN_HIP_FORWARD(hipGetLastError, cudaGetLastError)
EVOKERN_HIP_FORWARD(hipPeekAtLastError, cudaPeekAtLastError)
EVOKERN_HIP_FORWARD(hipGetErrorString, cudaGetErrorString)
EVOKERN_HIP_FORWARD(hipGetErrorName, cudaGetErrorName)
EVOKERN_HIP_FORWARD(hipMalloc, cudaMalloc)
EVOKERN_HIP_FORWARD(hipMallocAsync, cudaMallocAsync)
EVOKERN_HIP_FORWARD(hipFree, cudaFree)
EVOKERN_HIP_FORWARD(hipFreeAsync, cudaFreeAsync)
EVOKERN_HIP_FORWARD(hipMemcpy, cudaMemcpy)
EVOKERN_HIP_FORWARD(hipMemcpyAsync, cudaMemcpyAsync)
EVOKERN_HIP_FORWARD(hipMemset, cudaMemset)
EVOKERN_HIP_FORWARD(hipMemsetAsync, cudaMemsetAsync)
EVOKERN_HIP_FORWARD(hipStreamCreate, cudaStreamCreate)
EVOKERN_HIP_FORWARD(hipStreamCreateWithFlags, cudaStreamCreateWithFlags)
EVOKERN_HIP_FORWARD(hipStreamDestroy, cudaStreamDestroy)
EVOKERN_HIP_FORWARD(hipStreamSynchronize, cudaStreamSynchronize)
EVOKERN_HIP_FORWARD(hipStreamWaitEvent, cudaStreamWaitEvent)
EVOKERN_HIP_FORWARD(hipEventCreate, cudaEventCreate)
EVOKERN_HIP_FORWARD(hipEventCreateWithFlags, cudaEventCreateWithFlags)
EVOKERN_HIP_FORWARD(hipEventDestroy, cudaEventDestroy)
EVOKERN_HIP_FORWARD(hipEventRecord, cudaEventRecord)
EVOKERN_HIP_FORWARD(hipEventSynchronize, cudaEventSynchronize)
EVOKERN_HIP_FORWARD(hipEventElapsedTime, cudaEventElapsedTime)
EVOKERN_HIP_FORWARD(hipFuncSetAttribute, cudaFuncSetAttribute)
EVOKERN_HIP_FORWARD(hipFuncGetAttributes, cudaFuncGetAttributes)
EVOKERN_HIP_FORWARD(hipLaunchKernel, cudaLaunchKernel)
EVOKERN_HIP_FORWARD(hipLaunchCooperativeKernel, cudaLaunchCooperativeKernel)
EVOKERN_HIP_FORWARD(hipOccupancyMaxActiveBlocksPerMultiprocessor, cudaOccupancyMaxActiveBlocksPerMultiprocessor)
#undef EVOKERN_HIP_FORWARD

#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_SYMBOL(symbol) symbol
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define hipLaunchKernelGGL(kernel, grid, block, shared, stream, ...)       \
  do {                                                                     \
    kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__);          \
  } while (0)

#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z

// HIP's warp functions know no mask: all lanes that are there take part. Macros, because CUDA still declares some of the names.
namespace evokern_hip {

constexpr unsigned kAll = 0xffffffffu;

template <typename T>
__device__ inline T shfl(T value, int lane, int width = 32) { return __shfl_sync(kAll, value, lane, width); }
template <typename T>
__device__ inline T shfl_up(T value, unsigned by, int width = 32) { return __shfl_up_sync(kAll, value, by, width); }
template <typename T>
__device__ inline T shfl_down(T value, unsigned by, int width = 32) { return __shfl_down_sync(kAll, value, by, width); }
template <typename T>
__device__ inline T shfl_xor(T value, int mask, int width = 32) { return __shfl_xor_sync(kAll, value, mask, width); }
__device__ inline unsigned long long ballot(int predicate) { return __ballot_sync(kAll, predicate); }
__device__ inline int any(int predicate) { return __any_sync(kAll, predicate); }
__device__ inline int all(int predicate) { return __all_sync(kAll, predicate); }
__device__ inline unsigned lane() {
  unsigned found;
  asm("mov.u32 %0, %%laneid;" : "=r"(found));
  return found;
}

}  // namespace evokern_hip

#define __shfl(...) evokern_hip::shfl(__VA_ARGS__)
#define __shfl_up(...) evokern_hip::shfl_up(__VA_ARGS__)
#define __shfl_down(...) evokern_hip::shfl_down(__VA_ARGS__)
#define __shfl_xor(...) evokern_hip::shfl_xor(__VA_ARGS__)
#define __ballot(predicate) evokern_hip::ballot(predicate)
#define __any(predicate) evokern_hip::any(predicate)
#define __all(predicate) evokern_hip::all(predicate)
#define __lane_id() evokern_hip::lane()
#define unsafeAtomicAdd(address, value) atomicAdd(address, value)

#endif  // EVOKERN_HIP_RUNTIME_H_
