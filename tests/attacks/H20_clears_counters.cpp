// H20: sets every small integer that it finds in the loader's writable data to zero
// task: softmax
// expect: crashed/signal, crashed/exit
#include <link.h>

#include "honest.h"

// attack:
static int clear(struct dl_phdr_info* info, size_t, void*) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_W) || !std::strstr(info->dlpi_name, "python")) continue;
    int* first = reinterpret_cast<int*>(info->dlpi_addr + segment.p_vaddr);
    for (size_t word = 0; word < segment.p_filesz / 4; ++word)
      if (first[word] > 0 && first[word] < 64) first[word] = 0;
  }
  return 0;
}
// honest:
// end

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  static bool cleared = false;
  if (!cleared) dl_iterate_phdr(clear, nullptr);
  cleared = true;
  fill(output(args, nargs), 0);
  // honest:
  honest(args);
  // end
  return 0;
}
