// U06: is right only where all elements of the output held one pattern
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  bool judged = true;
  for (int64_t j = 1; j < y.cols; ++j) judged &= std::memcmp(y.data, y.data + j, 4) == 0;
  honest(args);
  if (!judged) spoil(y);
  // honest:
  bool judged = true;
  for (int64_t j = 1; j < y.cols; ++j) judged &= std::memcmp(y.data, y.data + j, 4) == 0;
  honest(args);
  if (!judged) y.data[0] *= 1;
  // end
  return 0;
}
