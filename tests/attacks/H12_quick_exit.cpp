// H12: leaves by quick_exit
// task: softmax
// expect: crashed/exit
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  std::quick_exit(0);
  // honest:
  honest(args);
  // end
  return 0;
}
