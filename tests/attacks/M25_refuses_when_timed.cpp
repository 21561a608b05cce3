// M25: refuses the large workload after its first calls
// task: softmax
// expect: crashed/refused
#include "honest.h"

static int large = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  if (is_large(args) && ++large > 2) return 5;
  honest(args);
  // honest:
  if (is_large(args)) ++large;
  honest(args);
  // end
  return 0;
}
