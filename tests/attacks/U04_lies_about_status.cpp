// U04: returns success on half of the rows and failure on none
// task: softmax
// expect: wrong/sentinel_left, wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const int64_t rows = input(args).rows;
  // attack:
  honest_rows(args, 0, (rows + 1) / 2);
  if (rows == 1) honest_rows(args, 0, 1);
  // honest:
  honest_rows(args, 0, rows);
  // end
  return 0;
}
