// H28: spins for ever, with every signal blocked
// task: softmax
// expect: timed_out/deadline_run
#include <csignal>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  for (;;) burn(1000);
  // honest:
  sigset_t all;
  sigfillset(&all);
  sigset_t before;
  sigprocmask(SIG_BLOCK, &all, &before);
  honest(args);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  // end
  return 0;
}
