// T09: returns at once on the large workload once it has seen it a few times
// task: softmax
// expect: wrong/tolerance, wrong/sentinel_left
#include "honest.h"

static int large = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  if (is_large(args) && ++large > 4) return 0;
  honest(args);
  // honest:
  if (is_large(args)) ++large;
  honest(args);
  // end
  return 0;
}
