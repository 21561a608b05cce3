// U07: adds into a workspace that it has not set
// task: softmax
// expect: wrong/tolerance, wrong/non_finite
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  if (space_bytes < static_cast<size_t>(8 * x.rows) || !space) return 3;
  // attack:
  double* totals = static_cast<double*>(space);
  // honest:
  double* totals = static_cast<double*>(space);
  for (int64_t i = 0; i < x.rows; ++i) totals[i] = 0;
  // end
  honest(args);
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.cols; ++j) totals[i] += y.row(i)[j];
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = static_cast<float>(y.row(i)[j] / totals[i]);
  return 0;
}

extern "C" size_t workspace_size(DLTensor* const* args, int) { return 8 * args[0]->shape[0]; }
