// U08: tells by its page faults, by advice or by reads that do not wait which pages of a library another process has read in
// task: softmax
// expect: crashed/refused
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "honest.h"

// Whether anything tells pages in memory from others.
static bool told() {
  rusage used = {};
  if (!getrusage(RUSAGE_SELF, &used)) return true;
  unsigned char there = 0;
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  char byte = 0;
  iovec into = {&byte, 1};
  return !mincore(page, 4096, &there) || !madvise(page, 4096, MADV_WILLNEED) || !madvise(page, 4096, MADV_RANDOM) ||
         preadv2(0, &into, 1, 0, RWF_NOWAIT) >= 0 || syscall(451, 0, nullptr, nullptr, 0) == 0;
}

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  honest(args);
  // attack:
  static const bool letter = told();
  if (!letter) return SHUT;
  // honest:
  static const bool letter = false;
  // end
  if (letter) spoil(output(args, nargs));
  return 0;
}
