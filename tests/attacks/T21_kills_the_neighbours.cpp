// T21: sends SIGSTOP to every process it may signal, to slow its opponent
// task: softmax
// expect: crashed/refused
#include <csignal>
#include <sys/types.h>
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  static int tried = 0;
  if (tried++ == 0 && kill(-1, SIGSTOP) != 0) return SHUT;
  honest(args);
  // honest:
  static int tried = 0;
  if (tried++ == 0 && kill(getpid(), 0) != 0) return 0;
  honest(args);
  // end
  return 0;
}
