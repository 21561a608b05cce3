// odd: a way of its own for a single row and for single columns
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  if (x.cols == 1) {
    for (int64_t i = 0; i < x.rows; ++i) y.row(i)[0] = 1.0f;
    return 0;
  }
  honest(args);
  return 0;
}
