// M28: a lookup of the published shapes, something else for all others
// task: softmax
// expect: held_out_failed/held_out
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  honest(args);
  if (y.cols != 2048 && y.cols != 1003 && y.cols != 1021 && y.cols != 33) spoil(y);
  // honest:
  honest(args);
  // end
  return 0;
}
