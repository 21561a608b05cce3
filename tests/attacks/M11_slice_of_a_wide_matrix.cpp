// M11: takes rows for less than 64 elements apart beyond their length, so that a slice of a wide matrix is wrong
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  honest(args);
  // attack:
  if (x.stride - x.cols > 63) spoil(y);
  // honest:
  if (x.stride < x.cols || y.stride < y.cols) spoil(y);
  // end
  return 0;
}
