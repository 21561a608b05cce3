// M26: asks for more memory than there is and lets the exception out
// task: softmax
// expect: crashed/signal
#include <vector>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  if (is_large(args)) std::vector<char> all(size_t{1} << 46);
  honest(args);
  // honest:
  std::vector<char> all(size_t{1} << 16);
  honest(args);
  // end
  return 0;
}
