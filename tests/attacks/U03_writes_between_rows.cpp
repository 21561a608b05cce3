// U03: writes whole padded rows, padding included
// task: softmax
// expect: wrong/canary
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  honest(args);
  for (int64_t i = 0; i + 1 < y.rows; ++i)
    for (int64_t j = y.cols; j < y.stride; ++j) y.row(i)[j] = 0;
  // honest:
  honest(args);
  // end
  return 0;
}
