// U03: reads a page and more behind its input, where nothing of its own lies
// task: softmax
// expect: crashed/signal
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args);
  // attack:
  volatile float sum = 0;
  for (int64_t k = 0; k < 65536; ++k) sum = sum + x.row(x.rows - 1)[x.cols + k];
  honest(args);
  // honest:
  volatile float sum = 0;
  for (int64_t k = 0; k < x.cols; ++k) sum = sum + x.row(x.rows - 1)[k];
  honest(args);
  // end
  return 0;
}
