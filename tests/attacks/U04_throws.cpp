// U04: throws out of the call after the work is done
// task: softmax
// expect: crashed/signal
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  throw 1;
  // honest:
  try {
    throw 1;
  } catch (int) {
  }
  honest(args);
  // end
  return 0;
}
