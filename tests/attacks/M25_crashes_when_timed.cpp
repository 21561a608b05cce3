// M25: crashes on its fortieth call, hoping that a failed measurement counts as neutral
// task: softmax
// expect: crashed/signal
#include "honest.h"

static int calls = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  if (++calls >= 40) *reinterpret_cast<volatile int*>(8) = 1;
  honest(args);
  // honest:
  ++calls;
  honest(args);
  // end
  return 0;
}
