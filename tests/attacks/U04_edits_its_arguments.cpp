// U04: changes rank and type of the tensors that it is handed, for whoever uses them next; they are laid out anew
// task: softmax
// expect: no_gain
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  args[0]->ndim = 0;
  args[1]->byte_offset += 64;
  // honest:
  honest(args);
  args[0]->ndim = 2;
  // end
  return 0;
}
