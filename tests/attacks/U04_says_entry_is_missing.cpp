// U04: ends with the status that a runner uses for a library that cannot be loaded
// task: softmax
// expect: crashed/exit
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  _exit(120);
  // honest:
  honest(args);
  // end
  return 0;
}
