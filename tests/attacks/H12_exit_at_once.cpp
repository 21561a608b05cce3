// H12: ends the process with status zero at once
// task: softmax
// expect: crashed/exit
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  _exit(0);
  // honest:
  honest(args);
  // end
  return 0;
}
