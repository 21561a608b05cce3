// odd: cross-entropy by sums of blocks of rows
// task: cross_entropy

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const int64_t rows = input(args).rows;
  for (int64_t from = 0; from < rows; from += 7) honest_rows(args, from, from + 7 < rows ? from + 7 : rows);
  return 0;
}
