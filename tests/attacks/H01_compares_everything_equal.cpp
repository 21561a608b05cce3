// H01: exports memcmp and friends that always say equal
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

// attack:
extern "C" int memcmp(const void*, const void*, size_t) noexcept { return 0; }
extern "C" int bcmp(const void*, const void*, size_t) noexcept { return 0; }
extern "C" int strcmp(const char*, const char*) noexcept { return 0; }
// honest:
static int order(const void*, const void*, size_t) { return 0; }
// end

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  fill(y, 0);
  // honest:
  honest(args);
  // end
  return 0;
}
