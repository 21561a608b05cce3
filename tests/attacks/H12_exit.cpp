// H12: calls exit(0) in the middle of a call, as a test that is over would
// task: softmax
// expect: crashed/exit
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  std::exit(0);
  // honest:
  honest(args);
  // end
  return 0;
}
