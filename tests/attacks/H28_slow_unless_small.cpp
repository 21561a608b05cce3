// H28: takes seconds on everything larger than a tile
// task: softmax
// expect: timed_out/deadline_run
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  if (input(args).size() > 40000) for (;;) burn(1000);
  // honest:
  honest(args);
  // end
  return 0;
}
