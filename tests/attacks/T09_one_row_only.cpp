// T09: does one row of the large workload and leaves the rest
// task: softmax
// expect: wrong/tolerance, wrong/sentinel_left
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const int64_t rows = input(args).rows;
  // attack:
  honest_rows(args, 0, is_large(args) ? 1 : rows);
  // honest:
  honest_rows(args, 0, rows);
  // end
  return 0;
}
