// M27: tries three variants on the real input, each of which changes it
// task: softmax
// expect: crashed/signal
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args);
  // attack:
  for (int trial = 0; trial < 3; ++trial) x.row(0)[0] = x.row(0)[0] * 0.5f + 1.0f;
  honest(args);
  // honest:
  for (int trial = 0; trial < 3; ++trial) honest(args);
  // end
  return 0;
}
