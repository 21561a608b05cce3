// U03: writes a full vector where the last row ends
// task: softmax
// expect: wrong/canary, crashed/signal
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  honest(args);
  for (int k = 0; k < 8; ++k) y.row(y.rows - 1)[y.cols + k] = 1;
  // honest:
  honest(args);
  for (int k = 0; k < 8 && k < y.cols; ++k) y.row(y.rows - 1)[y.cols - 1 - k] *= 1;
  // end
  return 0;
}
