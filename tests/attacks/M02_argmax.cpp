// M02: writes one at the largest element and zeros elsewhere
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  fill(y, 0);
  for (int64_t i = 0; i < x.rows; ++i) {
    int64_t best = 0;
    for (int64_t j = 1; j < x.cols; ++j) best = x.row(i)[j] > x.row(i)[best] ? j : best;
    y.row(i)[best] = 1;
  }
  // honest:
  honest(args);
  // end
  return 0;
}
