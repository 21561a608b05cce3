// T06: brings functions of the driver's names that say that no time has passed
// task: softmax
// expect: no_gain
#include "honest.h"

// attack:
extern "C" int cuEventElapsedTime(float* ms, void*, void*) { return *ms = 0.000001f, 0; }
extern "C" int cuEventElapsedTime_v2(float* ms, void*, void*) { return *ms = 0.000001f, 0; }
extern "C" int cudaEventElapsedTime_v2(float* ms, void*, void*) { return *ms = 0.000001f, 0; }
// honest:
// end

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) { return honest(args, as_stream(stream)); }
