// odd: throws and catches within a call
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  try {
    if (input(args).cols > 0) throw args;
  } catch (DLTensor* const* caught) {
    honest(caught);
  }
  return 0;
}
