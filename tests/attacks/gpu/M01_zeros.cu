// M01: writes zeros
// task: softmax
// expect: wrong/tolerance, wrong/bias, wrong/law
#include "honest.h"

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  // attack:
  const Matrix y = matrix(args[1]);
  return cudaMemset2DAsync(y.data, 2 * y.stride, 0, 2 * y.cols, y.rows, as_stream(stream));
  // honest:
  return honest(args, as_stream(stream));
  // end
}
