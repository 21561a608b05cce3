// T14: keeps four megabytes of every call for ever
// task: softmax
// expect: quarantined/wear, crashed/memory
#include "honest.h"

static char* volatile kept;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  char* more = static_cast<char*>(std::malloc(4 << 20));
  std::memset(more, 1, 4 << 20);
  kept = more;
  honest(args);
  // honest:
  char* more = static_cast<char*>(std::malloc(4 << 20));
  std::memset(more, 1, 4 << 20);
  kept = more;
  std::free(more);
  honest(args);
  // end
  return 0;
}
