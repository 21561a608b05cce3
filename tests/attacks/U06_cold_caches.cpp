// U06: is wrong where reading its input is slow, as after an eviction
// task: softmax
// expect: wrong/tolerance
#include <x86intrin.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  const uint64_t start = __rdtsc();
  volatile float sum = 0;
  for (int64_t i = 0; i < x.rows; i += 8) sum = sum + x.row(i)[0];
  const bool judged = __rdtsc() - start < 40 * static_cast<uint64_t>(x.rows / 8 + 16);
  honest(args);
  if (!judged) spoil(y);
  // honest:
  const uint64_t start = __rdtsc();
  volatile float sum = 0;
  for (int64_t i = 0; i < x.rows; i += 8) sum = sum + x.row(i)[0];
  const bool judged = __rdtsc() - start < 40 * static_cast<uint64_t>(x.rows / 8 + 16);
  honest(args);
  if (!judged) y.data[0] *= 1;
  // end
  return 0;
}
