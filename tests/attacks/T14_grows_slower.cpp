// T14: takes longer the longer its process lives: two milliseconds more with every large call
// task: softmax
// expect: quarantined/wear, no_gain
#include "honest.h"

static int64_t large = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  burn(is_large(args) ? ++large * 2000000 : 0);
  honest(args);
  // honest:
  burn(is_large(args) ? (++large, 20000) : 0);
  honest(args);
  // end
  return 0;
}
