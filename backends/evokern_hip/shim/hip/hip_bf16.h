// HIP's bfloat16 on CUDA: the types have names of their own, the functions the same.
#ifndef EVOKERN_HIP_BF16_H_
#define EVOKERN_HIP_BF16_H_

// CUDA's header includes that of half precision, which must be shielded from macros.
#include <hip/hip_fp16.h>

#include <cuda_bf16.h>

using __hip_bfloat16 = __nv_bfloat16;
using __hip_bfloat162 = __nv_bfloat162;

#endif  // EVOKERN_HIP_BF16_H_
