// H12: leaves by the raw system call
// task: softmax
// expect: crashed/exit
#include <sys/syscall.h>
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  syscall(SYS_exit_group, 0);
  // honest:
  honest(args);
  // end
  return 0;
}
