// odd: loops made of goto
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  int64_t i = 0;
  next_row:
  if (i == x.rows) goto done;
  honest_rows(args, i, i + 1);
  ++i;
  goto next_row;
  done:;
  return 0;
}
