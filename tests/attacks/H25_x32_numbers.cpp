// H25: forks by the number of the x32 interface
// task: softmax
// expect: crashed/refused
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  const long child = syscall(0x40000000 | 57);
  if (child < 0) return SHUT;
  if (child == 0) _exit(0);
  honest(args);
  // honest:
  honest(args);
  // end
  return 0;
}
