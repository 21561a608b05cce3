// U04: leaves the call by a long jump into the frame of an earlier one
// task: softmax
// expect: crashed/signal, crashed/exit, wrong/tolerance, wrong/sentinel_left
#include <csetjmp>

#include "honest.h"

static jmp_buf place;
static int calls = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  if (calls++ > 0) longjmp(place, 1);
  if (setjmp(place) == 0) honest(args);
  // honest:
  if (setjmp(place) == 0) honest(args);
  // end
  return 0;
}
