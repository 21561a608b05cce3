// H28: stops itself, for a judge that waits for a process to end
// task: softmax
// expect: timed_out/deadline_run
#include <csignal>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  if (raise(SIGSTOP) != 0) return SHUT;
  // honest:
  honest(args);
  // end
  return 0;
}
