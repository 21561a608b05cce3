// U05: fills every folder it may write
// task: softmax
// expect: crashed/refused
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  static char block[1 << 20];
  bool written = false;
  for (const char* folder : {"/tmp", "/dev/shm", ".", "/var/tmp"}) {
    char name[64];
    std::snprintf(name, sizeof name, "%s/bomb", folder);
    FILE* file = std::fopen(name, "w");
    for (int i = 0; file && i < 4096 && std::fwrite(block, 1, sizeof block, file) == sizeof block; ++i) written = true;
    if (file) std::fclose(file);
  }
  if (!written) return SHUT;
  honest(args);
  // honest:
  static char block[1 << 10];
  block[0] = 1;
  honest(args);
  // end
  return 0;
}
