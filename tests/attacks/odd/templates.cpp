// odd: a template for the row length's residue
// task: softmax

#include "honest.h"

template <int Rest>
static void part(DLTensor* const* args) {
  static_assert(Rest < 4);
  honest(args);
}

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  switch (input(args).cols % 4) {
    case 0: part<0>(args); break;
    case 1: part<1>(args); break;
    case 2: part<2>(args); break;
    default: part<3>(args);
  }
  return 0;
}
