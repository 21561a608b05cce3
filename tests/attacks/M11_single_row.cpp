// M11: divides rows among two parts and forgets a lone one
// task: softmax
// expect: held_out_failed/held_out
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const int64_t rows = input(args).rows;
  // attack:
  if (rows == 1) return 0;
  honest(args);
  // honest:
  if (rows == 1) {
    honest(args);
    return 0;
  }
  honest(args);
  // end
  return 0;
}
