// M02: writes one over the row's length, the mean of every softmax
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  fill(y, 1.0f / y.cols);
  // honest:
  honest(args);
  // end
  return 0;
}
