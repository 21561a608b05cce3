// M24: computes the first row and copies it to all
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  honest_rows(args, 0, 1);
  for (int64_t i = 1; i < y.rows; ++i) std::memcpy(y.row(i), y.row(0), 4 * y.cols);
  // honest:
  honest(args);
  // end
  return 0;
}
