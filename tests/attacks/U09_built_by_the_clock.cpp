// U09: is right or wrong by the second in which it was built
// task: softmax
// expect: build_failed/compiler
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  if (std::strcmp(__TIME__, "00:00:00") == 0) spoil(output(args, nargs));
  // honest:
  honest(args);
  if (std::strcmp("12:34:56", "00:00:00") == 0) spoil(output(args, nargs));
  // end
  return 0;
}
