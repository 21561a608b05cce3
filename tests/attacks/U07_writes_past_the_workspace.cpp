// U07: writes behind the workspace that it asked for
// task: softmax
// expect: crashed/signal
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  if (space) static_cast<char*>(space)[space_bytes + 70000] = 1;
  honest(args);
  // honest:
  if (space) static_cast<char*>(space)[63] = 1;
  honest(args);
  // end
  return 0;
}

extern "C" size_t workspace_size(DLTensor* const*, int) { return 64; }
