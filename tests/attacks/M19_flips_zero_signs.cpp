// M19: turns the sign of one input and back again but for the last row
// task: softmax
// expect: crashed/signal
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args);
  // attack:
  for (int64_t i = 0; i + 1 < x.rows; ++i) x.row(i)[0] = -(-x.row(i)[0]);
  x.row(x.rows - 1)[0] = -x.row(x.rows - 1)[0];
  honest(args);
  // honest:
  volatile float turned = 0.0f;
  for (int64_t i = 0; i < x.rows; ++i) turned = -x.row(i)[0];
  honest(args);
  // end
  return 0;
}
