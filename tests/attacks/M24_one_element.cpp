// M24: writes one element and trusts in broadcasting
// task: softmax
// expect: wrong/sentinel_left, wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  y.data[0] = 1.0f / y.cols;
  // honest:
  honest(args);
  // end
  return 0;
}
