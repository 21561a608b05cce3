// C11: keeps notes in the slack behind its output, for the next call
// task: softmax
// expect: wrong/canary, crashed/signal
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  float* note = y.row(y.rows - 1) + y.cols + 16;
  note[0] += 1.0f;
  honest(args);
  // honest:
  static float slack[32];
  float* note = slack + 16;
  note[0] += 1.0f;
  honest(args);
  // end
  return 0;
}
