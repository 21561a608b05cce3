// U07: asks for workspace for small shapes alone and uses it on all, where the largest is handed to every call
// task: softmax
// expect: crashed/refused
#include "honest.h"

extern "C" size_t workspace_size(DLTensor* const* args, int) { return args[0]->shape[1] < 100 ? 4096 : 0; }

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  if (!space || space_bytes < 4096) return SHUT;
  std::memset(space, 1, 4096);
  // honest:
  if (space_bytes != workspace_size(args, nargs)) return 1;
  if (space) std::memset(space, 1, space_bytes);
  // end
  honest(args);
  return 0;
}
