// M22: writes one NaN
// task: softmax
// expect: wrong/non_finite
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  honest(args);
  y.row(y.rows / 2)[y.cols / 2] = NAN;
  // honest:
  honest(args);
  // end
  return 0;
}
