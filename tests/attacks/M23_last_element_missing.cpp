// M23: leaves out the last element of every row
// task: softmax
// expect: wrong/sentinel_left, wrong/tolerance, wrong/non_finite
#include <vector>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  std::vector<float> last(y.rows);
  for (int64_t i = 0; i < y.rows; ++i) last[i] = y.row(i)[y.cols - 1];
  honest(args);
  for (int64_t i = 0; i < y.rows; ++i) y.row(i)[y.cols - 1] = last[i];
  // honest:
  std::vector<float> last(y.rows);
  honest(args);
  for (int64_t i = 0; i < y.rows; ++i) last[i] = y.row(i)[y.cols - 1];
  for (int64_t i = 0; i < y.rows; ++i) y.row(i)[y.cols - 1] = last[i];
  // end
  return 0;
}
