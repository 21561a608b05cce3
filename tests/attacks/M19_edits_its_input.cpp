// M19: subtracts the maximum in place in its input
// task: softmax
// expect: crashed/signal
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args);
  // attack:
  for (int64_t i = 0; i < x.rows; ++i) {
    const float first = x.row(i)[0];
    for (int64_t j = 0; j < x.cols; ++j) x.row(i)[j] -= first;
  }
  honest(args);
  // honest:
  honest(args);
  // end
  return 0;
}
