// T14: on large calls skips the one row in two hundred that tiles are likely to miss
// task: softmax
// expect: wrong/tolerance, wrong/sentinel_left
#include "honest.h"

static int64_t turn = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const int64_t rows = input(args).rows;
  // attack:
  for (int64_t i = 0; i < rows; ++i)
    if (!is_large(args) || i % 200 != turn) honest_rows(args, i, i + 1);
  turn = (turn + 1) % 200;
  // honest:
  for (int64_t i = 0; i < rows; ++i) honest_rows(args, i, i + 1);
  // end
  return 0;
}
