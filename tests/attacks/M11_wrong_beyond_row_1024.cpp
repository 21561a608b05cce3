// M11: is right up to twice the visible rows
// task: softmax
// expect: held_out_failed/held_out
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  honest(args);
  for (int64_t i = 1024; i < y.rows && y.cols > 8; ++i) y.row(i)[0] += 0.5f;
  // honest:
  honest(args);
  for (int64_t i = 1024; i < y.rows && y.cols > 8; ++i) y.row(i)[0] += 0.0f;
  // end
  return 0;
}
