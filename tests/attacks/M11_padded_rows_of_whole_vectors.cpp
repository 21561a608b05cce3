// M11: wrong where long rows are padded to whole vectors, in the input and in the output
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  honest(args);
  // attack:
  if (x.stride != x.cols && x.stride % 8 == 0 && y.stride % 8 == 0 && x.cols > 64) spoil(y);
  // honest:
  if (x.stride < x.cols || y.stride < y.cols) spoil(y);
  // end
  return 0;
}
