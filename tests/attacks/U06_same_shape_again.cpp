// U06: is wrong from the fourth call in a row on one shape
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

static int64_t size = 0;
static int streak = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  streak = x.size() == size ? streak + 1 : 0;
  size = x.size();
  const bool judged = streak < 4;
  honest(args);
  if (!judged) spoil(y);
  // honest:
  streak = x.size() == size ? streak + 1 : 0;
  size = x.size();
  const bool judged = streak < 4;
  honest(args);
  if (!judged) y.data[0] *= 1;
  // end
  return 0;
}
