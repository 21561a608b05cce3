// odd: takes the rows from the last to the first, in blocks of columns for the maximum
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  for (int64_t i = input(args).rows; i-- > 0;) honest_rows(args, i, i + 1);
  return 0;
}
