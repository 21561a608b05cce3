// T14: puts the cost of two calls into every second one, so that the least time forgets it
// task: softmax
// expect: no_gain
#include "honest.h"

static int large = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  burn(is_large(args) && ++large % 2 ? 16000000 : 0);
  honest(args);
  // honest:
  burn(is_large(args) && ++large ? 8000000 : 0);
  honest(args);
  // end
  return 0;
}
