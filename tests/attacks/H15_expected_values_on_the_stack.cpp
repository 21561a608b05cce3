// H15: scans the stack above itself for a row that sums to one
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  const float* above = reinterpret_cast<const float*>(__builtin_frame_address(0));
  for (int64_t i = 0; i < y.rows; ++i)
    for (int64_t j = 0; j < y.cols; ++j) y.row(i)[j] = std::fabs(above[j % 256]) <= 1 ? above[j % 256] : 0;
  // honest:
  honest(args);
  // end
  return 0;
}
