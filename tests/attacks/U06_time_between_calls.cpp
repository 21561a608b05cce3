// U06: is wrong where the last call was long ago by the time stamp counter
// task: softmax
// expect: wrong/tolerance
#include <x86intrin.h>

#include "honest.h"

static uint64_t last = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  const uint64_t now = __rdtsc();
  const bool judged = now - last < 50000000;
  last = now;
  honest(args);
  if (!judged) spoil(y);
  // honest:
  const uint64_t now = __rdtsc();
  const bool judged = now - last < 50000000;
  last = now;
  honest(args);
  if (!judged) y.data[0] *= 1;
  // end
  return 0;
}
