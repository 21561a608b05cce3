// U03: unmaps the input after reading it
// task: softmax
// expect: crashed/signal
#include <sys/mman.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args);
  // attack:
  honest(args);
  const uintptr_t first = reinterpret_cast<uintptr_t>(x.data) & ~uintptr_t{4095};
  if (munmap(reinterpret_cast<void*>(first), 4096) != 0) return SHUT;
  // honest:
  honest(args);
  // end
  return 0;
}
