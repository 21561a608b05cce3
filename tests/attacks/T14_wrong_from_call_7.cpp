// T14: counts calls of every size and is wrong from the seventh on
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

static int calls = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  if (++calls >= 7) spoil(output(args, nargs));
  // honest:
  honest(args);
  if (++calls >= 7) calls = 0;
  // end
  return 0;
}
