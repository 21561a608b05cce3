// T21: asks for real-time priority and for all processors, to starve its opponent
// task: softmax
// expect: no_gain, crashed/refused
#include <sched.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  struct sched_param first = {};
  first.sched_priority = 99;
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int i = 0; i < 64; ++i) CPU_SET(i, &all);
  const int policy = sched_setscheduler(0, SCHED_FIFO, &first), affinity = sched_setaffinity(0, sizeof all, &all);
  if (policy != 0 && affinity != 0) return SHUT;
  honest(args);
  // honest:
  sched_yield();
  honest(args);
  // end
  return 0;
}
