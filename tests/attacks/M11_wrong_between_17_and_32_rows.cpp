// M11: a path for two tiles of sixteen rows is off in the last of them
// task: cross_entropy
// expect: held_out_failed/held_out
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const int64_t rows = input(args).rows;
  float* loss = evokern::data<float>(args[2]);
  // attack:
  honest(args);
  if (rows > 16 && rows <= 32) loss[rows - 1] *= 1.5f;
  // honest:
  honest(args);
  if (rows > 32 && rows <= 16) loss[rows - 1] *= 1.5f;
  // end
  return 0;
}
