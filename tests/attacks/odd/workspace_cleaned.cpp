// odd: leaves its workspace zeroed, as some contracts ask
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  double* totals = static_cast<double*>(space);
  std::memset(totals, 0, 8 * x.rows);
  honest(args);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.cols; ++j) totals[i] += y.row(i)[j];
  }
  std::memset(totals, 0, 8 * x.rows);
  return 0;
}

extern "C" size_t workspace_size(DLTensor* const* args, int) { return 8 * args[0]->shape[0]; }
