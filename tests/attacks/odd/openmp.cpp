// odd: rows by an OpenMP loop with a dynamic schedule
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const int64_t rows = input(args).rows;
  #pragma omp parallel for schedule(dynamic, 4)
  for (int64_t i = 0; i < rows; ++i) honest_rows(args, i, i + 1);
  return 0;
}
