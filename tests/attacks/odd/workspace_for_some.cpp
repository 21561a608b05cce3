// odd: asks for a workspace on long rows only
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  if (input(args).cols > 1500 && !space) return 3;
  honest(args);
  return 0;
}

extern "C" size_t workspace_size(DLTensor* const* args, int) { return args[0]->shape[1] > 1500 ? 4096 : 0; }
