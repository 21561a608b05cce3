// T14: is slow in its first calls, to be given fewer repeats, and pays the same in all later ones
// task: softmax
// expect: no_gain
#include "honest.h"

static int calls = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  burn(++calls < 4 ? 20000000 : 0);
  // honest:
  honest(args);
  burn(++calls < 4 ? 1000 : 0);
  // end
  return 0;
}
