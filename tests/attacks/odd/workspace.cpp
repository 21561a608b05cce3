// odd: keeps one sum a row in the workspace
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  if (space_bytes < static_cast<size_t>(8 * x.rows)) return 3;
  double* totals = static_cast<double*>(space);
  for (int64_t i = 0; i < x.rows; ++i) {
    float peak = -INFINITY;
    for (int64_t j = 0; j < x.cols; ++j) peak = x.row(i)[j] > peak ? x.row(i)[j] : peak;
    totals[i] = 0;
    for (int64_t j = 0; j < x.cols; ++j) totals[i] += y.row(i)[j] = std::exp(x.row(i)[j] - peak);
  }
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = static_cast<float>(y.row(i)[j] / totals[i]);
  return 0;
}

extern "C" size_t workspace_size(DLTensor* const* args, int) { return 8 * args[0]->shape[0]; }
