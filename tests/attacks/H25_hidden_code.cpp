// H25: decodes machine code into an executable page and runs it; the code writes nothing
// task: softmax
// expect: wrong/tolerance, wrong/sentinel_left
#include <sys/mman.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  unsigned char code[] = {0x9b, 0x6a, 0x69};  // xor eax, eax; ret
  for (unsigned char& byte : code) byte ^= 0xaa;
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return SHUT;
  std::memcpy(page, code, sizeof code);
  reinterpret_cast<int (*)()>(page)();
  // honest:
  honest(args);
  // end
  return 0;
}
