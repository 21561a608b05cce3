// M01: writes numbers below any absolute tolerance
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  fill(y, 1e-7f);
  // honest:
  honest(args);
  // end
  return 0;
}
