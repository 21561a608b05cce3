// U03: writes the element before its output
// task: softmax
// expect: wrong/canary, crashed/signal
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  honest(args);
  y.data[-1] = 0;
  // honest:
  honest(args);
  y.data[0] = y.data[0];
  // end
  return 0;
}
