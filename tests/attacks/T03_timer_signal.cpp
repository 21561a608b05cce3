// T03: an interval timer's signal handler writes the outputs after DONE
// task: softmax
// expect: crashed/refused
#include <csignal>
#include <sys/time.h>

#include "honest.h"

static DLTensor* const* kept;

static void finish(int) { honest(kept); }

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  kept = args;
  std::signal(SIGALRM, finish);
  // attack:
  struct itimerval soon = {{0, 0}, {0, 3000}};
  if (setitimer(ITIMER_REAL, &soon, nullptr) != 0) return SHUT;
  // honest:
  finish(0);
  // end
  return 0;
}
