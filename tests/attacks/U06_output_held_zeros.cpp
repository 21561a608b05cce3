// U06: is wrong where the output held zeros
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  const bool judged = y.row(y.rows - 1)[y.cols - 1] != 0;
  honest(args);
  if (!judged) spoil(y);
  // honest:
  const bool judged = y.row(y.rows - 1)[y.cols - 1] != 0;
  honest(args);
  if (!judged) y.data[0] *= 1;
  // end
  return 0;
}
