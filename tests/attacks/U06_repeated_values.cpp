// U06: is wrong where it has seen the first value before
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

static float seen[256];
static unsigned turn = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  bool judged = true;
  for (float value : seen) judged &= value != x.data[0];
  seen[turn++ % 256] = x.data[0];
  honest(args);
  if (!judged) spoil(y);
  // honest:
  bool judged = true;
  for (float value : seen) judged &= value != x.data[0];
  seen[turn++ % 256] = x.data[0];
  honest(args);
  if (!judged) y.data[0] *= 1;
  // end
  return 0;
}
