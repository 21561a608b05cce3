// U04: ends itself by the signal that a judge uses
// task: softmax
// expect: crashed/signal
#include <csignal>
#include <sys/types.h>
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  kill(getpid(), SIGKILL);
  raise(SIGKILL);
  // honest:
  honest(args);
  // end
  return 0;
}
