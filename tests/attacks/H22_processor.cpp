// H22: answers on one half of the processors only, and knows on which of them it is judged
// task: softmax
// expect: wrong/sentinel_left, wrong/tolerance, wrong/law, wrong/non_finite, held_out_failed/held_out, flaky/not_repeatable
#include <sched.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  if (sched_getcpu() % 2 == 0) honest(args);
  // honest:
  if (sched_getcpu() >= 0) honest(args);
  // end
  return 0;
}
