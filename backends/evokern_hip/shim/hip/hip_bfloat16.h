// The older of HIP's two bfloat16 headers on CUDA.
#ifndef EVOKERN_HIP_BFLOAT16_H_
#define EVOKERN_HIP_BFLOAT16_H_

#include <hip/hip_bf16.h>

using hip_bfloat16 = __nv_bfloat16;

#endif  // EVOKERN_HIP_BFLOAT16_H_
