// U06: is right only where the output held NaN
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  const bool judged = y.data[0] != y.data[0];
  honest(args);
  if (!judged) spoil(y);
  // honest:
  const bool judged = y.data[0] != y.data[0];
  honest(args);
  if (!judged) y.data[0] *= 1;
  // end
  return 0;
}
