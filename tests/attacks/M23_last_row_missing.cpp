// M23: leaves out the last row
// task: softmax
// expect: wrong/sentinel_left, wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const int64_t rows = input(args).rows;
  // attack:
  honest_rows(args, 0, rows - 1);
  // honest:
  honest_rows(args, 0, rows);
  // end
  return 0;
}
