// U07: asks for more workspace than any kernel needs
// task: softmax
// expect: screened/resources
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  const size_t wanted = size_t{1} << 40;
  // honest:
  const size_t wanted = 64;
  // end
  (void)wanted;
  // attack:
  honest(args);
  // honest:
  honest(args);
  // end
  return 0;
}

extern "C" size_t workspace_size(DLTensor* const*, int) {
  // attack:
  return size_t{1} << 40;
  // honest:
  return 64;
  // end
}
