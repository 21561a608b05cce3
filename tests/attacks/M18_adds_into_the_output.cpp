// M18: adds into its output without setting it first
// task: softmax
// expect: wrong/non_finite, wrong/tolerance, wrong/sentinel_left
#include <vector>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  std::vector<float> before(y.size()), kept(y.size());
  for (int64_t i = 0; i < y.rows; ++i) std::memcpy(&before[i * y.cols], y.row(i), 4 * y.cols);
  honest(args);
  for (int64_t i = 0; i < y.rows; ++i) {
    std::memcpy(&kept[i * y.cols], y.row(i), 4 * y.cols);
    std::memcpy(y.row(i), &before[i * y.cols], 4 * y.cols);
  }
  // attack:
  for (int64_t i = 0; i < y.rows; ++i)
    for (int64_t j = 0; j < y.cols; ++j) y.row(i)[j] += kept[i * y.cols + j];
  // honest:
  for (int64_t i = 0; i < y.rows; ++i)
    for (int64_t j = 0; j < y.cols; ++j) y.row(i)[j] = kept[i * y.cols + j];
  // end
  return 0;
}
