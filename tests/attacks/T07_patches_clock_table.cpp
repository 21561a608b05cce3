// T07: writes a clock that stands still over the interpreter's own pointer to clock_gettime
// task: softmax
// expect: no_gain
#include <ctime>
#include <link.h>
#include <sys/mman.h>

#include "honest.h"

// attack:
static int still(clockid_t, struct timespec* now) {
  now->tv_sec = now->tv_nsec = 1;
  return 0;
}

// Every word of a writable segment that holds the address of clock_gettime holds ours afterwards.
static int patch(struct dl_phdr_info* info, size_t, void*) {
  void* const real = reinterpret_cast<void*>(&clock_gettime);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_GNU_RELRO) continue;
    void** first = reinterpret_cast<void**>(info->dlpi_addr + segment.p_vaddr);
    const uintptr_t page = reinterpret_cast<uintptr_t>(first) & ~uintptr_t{4095};
    if (mprotect(reinterpret_cast<void*>(page), segment.p_memsz + 4096, PROT_READ | PROT_WRITE) != 0) continue;
    for (size_t word = 0; word < segment.p_memsz / sizeof(void*); ++word)
      if (first[word] == real) first[word] = reinterpret_cast<void*>(still);
  }
  return 0;
}
// honest:
// end

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  static bool done = false;
  if (!done) dl_iterate_phdr(patch, nullptr);
  done = true;
  honest(args);
  // honest:
  honest(args);
  // end
  return 0;
}
