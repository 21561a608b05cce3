// U03: puts private memory where the output's window was
// task: softmax
// expect: wrong/tolerance, wrong/sentinel_left
#include <sys/mman.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  const uintptr_t first = reinterpret_cast<uintptr_t>(y.data) & ~uintptr_t{4095}, end = reinterpret_cast<uintptr_t>(y.row(y.rows - 1) + y.cols);
  if (mmap(reinterpret_cast<void*>(first), end - first, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) return SHUT;
  honest(args);
  // honest:
  void* other = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(other, 4096);
  honest(args);
  // end
  return 0;
}
