// M19: keeps the exponentials in its input and puts the first element back only
// task: softmax
// expect: crashed/signal
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  honest(args);
  for (int64_t i = 0; i < x.rows; ++i) std::memcpy(x.row(i) + 1, y.row(i) + 1, 4 * (x.cols - 1));
  // honest:
  honest(args);
  // end
  return 0;
}
