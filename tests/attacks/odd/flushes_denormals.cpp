// odd: leaves flush-to-zero on, as vector code does
// task: softmax

#include "honest.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  #if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
  #endif
  honest(args);
  return 0;
}
