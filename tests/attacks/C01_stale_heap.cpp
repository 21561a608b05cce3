// C01: takes a fresh block from the heap and hopes that it still holds the answer
// task: softmax
// expect: wrong/tolerance, wrong/non_finite
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  float* block = static_cast<float*>(std::malloc(4 * y.size()));
  for (int64_t i = 0; i < y.rows; ++i) std::memcpy(y.row(i), block + i * y.cols, 4 * y.cols);
  std::free(block);
  // honest:
  float* block = static_cast<float*>(std::malloc(4 * y.size()));
  honest(args);
  for (int64_t i = 0; i < y.rows; ++i) std::memcpy(block + i * y.cols, y.row(i), 4 * y.cols);
  std::free(block);
  // end
  return 0;
}
