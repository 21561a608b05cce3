// U03: gives the pages of its output back to the system after writing them
// task: softmax
// expect: crashed/refused
#include <sys/mman.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  honest(args);
  const uintptr_t first = (reinterpret_cast<uintptr_t>(y.data) + 4095) & ~uintptr_t{4095}, end = reinterpret_cast<uintptr_t>(y.data + y.size()) & ~uintptr_t{4095};
  if (end > first && madvise(reinterpret_cast<void*>(first), end - first, MADV_REMOVE) != 0) return SHUT;
  // honest:
  honest(args);
  // end
  return 0;
}
