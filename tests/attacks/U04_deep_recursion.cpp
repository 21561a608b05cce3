// U04: recurses without end on the large workload
// task: softmax
// expect: crashed/signal
#include "honest.h"

static int deep(int left) {
  volatile char room[4096];
  room[0] = static_cast<char>(left);
  return left > 0 ? deep(left - 1) + room[0] : 0;
}

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  if (is_large(args)) deep(1 << 30);
  honest(args);
  // honest:
  deep(100);
  honest(args);
  // end
  return 0;
}
