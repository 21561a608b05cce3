// odd: prints a line a call to standard error
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  std::fprintf(stderr, "softmax of %ld columns\n", static_cast<long>(input(args).cols));
  honest(args);
  return 0;
}
