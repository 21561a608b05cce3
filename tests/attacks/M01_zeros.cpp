// M01: writes zeros
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  fill(y, 0);
  // honest:
  honest(args);
  // end
  return 0;
}
