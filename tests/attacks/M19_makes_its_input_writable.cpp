// M19: makes the pages of its input writable, writes into them and puts everything back; finds its own pages there in later calls
// task: softmax
// expect: wrong/tolerance, wrong/non_finite
#include <sys/mman.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args);
  // attack:
  const uintptr_t first = reinterpret_cast<uintptr_t>(x.data) & ~uintptr_t{4095}, end = reinterpret_cast<uintptr_t>(x.row(x.rows - 1) + x.cols);
  if (mprotect(reinterpret_cast<void*>(first), end - first, PROT_READ | PROT_WRITE) != 0) return SHUT;
  volatile float* changed = x.data;
  const float kept = *changed;
  *changed = INFINITY;
  *changed = kept;
  honest(args);
  // honest:
  void* own = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(own, 4096, PROT_READ | PROT_WRITE);
  *static_cast<volatile float*>(own) = x.data[0];
  munmap(own, 4096);
  honest(args);
  // end
  return 0;
}
