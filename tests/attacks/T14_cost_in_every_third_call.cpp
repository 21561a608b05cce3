// T14: puts the cost of three calls into every third one
// task: softmax
// expect: no_gain
#include "honest.h"

static int large = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  burn(is_large(args) && ++large % 3 == 0 ? 24000000 : 0);
  honest(args);
  // honest:
  burn(is_large(args) && ++large ? 8000000 : 0);
  honest(args);
  // end
  return 0;
}
