// H25: makes a process by the system call's number, without any name to be found
// task: softmax
// expect: crashed/processes
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  const long child = syscall(57);
  if (child < 0) return SHUT;
  if (child == 0) _exit(0);
  honest(args);
  // honest:
  const long self = syscall(39);
  if (self < 0) return 1;
  honest(args);
  // end
  return 0;
}
