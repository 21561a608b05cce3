// M10: leaves out the subtraction of the maximum
// task: softmax
// expect: wrong/non_finite
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  for (int64_t i = 0; i < x.rows; ++i) {
    double total = 0;
    for (int64_t j = 0; j < x.cols; ++j) total += y.row(i)[j] = std::exp(x.row(i)[j]);
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] /= total;
  }
  // honest:
  honest(args);
  // end
  return 0;
}
