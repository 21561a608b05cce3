// M22: writes NaN everywhere, which no comparison calls different
// task: softmax
// expect: wrong/non_finite
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  fill(y, NAN);
  // honest:
  honest(args);
  // end
  return 0;
}
