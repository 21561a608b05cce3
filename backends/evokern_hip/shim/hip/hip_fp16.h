// HIP's half precision on CUDA: the types and functions have the same names.
#ifndef EVOKERN_HIP_FP16_H_
#define EVOKERN_HIP_FP16_H_

// CUDA's header declares functions of these names, which are macros once hip_runtime.h was included.
#pragma push_macro("__shfl")
#pragma push_macro("__shfl_up")
#pragma push_macro("__shfl_down")
#pragma push_macro("__shfl_xor")
#undef __shfl
#undef __shfl_up
#undef __shfl_down
#undef __shfl_xor
#include <cuda_fp16.h>
#pragma pop_macro("__shfl")
#pragma pop_macro("__shfl_up")
#pragma pop_macro("__shfl_down")
#pragma pop_macro("__shfl_xor")

#endif  // EVOKERN_HIP_FP16_H_
