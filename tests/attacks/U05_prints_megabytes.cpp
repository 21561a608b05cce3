// U05: prints ten megabytes
// task: softmax
// expect: crashed/output_flood
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  static char line[4096];
  std::memset(line, 'x', sizeof line);
  for (int i = 0; i < 2560; ++i) std::fwrite(line, 1, sizeof line, stderr);
  // honest:
  honest(args);
  std::fputs("x\n", stderr);
  // end
  return 0;
}
