// M22: writes infinity into the last element
// task: softmax
// expect: wrong/non_finite
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  honest(args);
  y.row(y.rows - 1)[y.cols - 1] = INFINITY;
  // honest:
  honest(args);
  // end
  return 0;
}
