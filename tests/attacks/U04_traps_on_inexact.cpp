// U04: turns floating-point exceptions into signals and leaves them so
// task: softmax
// expect: crashed/signal
#include <fenv.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_INEXACT);
  honest(args);
  // honest:
  feenableexcept(0);
  honest(args);
  // end
  return 0;
}
