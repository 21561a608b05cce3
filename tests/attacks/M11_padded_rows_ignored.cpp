// M11: takes every matrix for contiguous
// task: softmax
// expect: wrong/tolerance, wrong/canary, wrong/sentinel_left, wrong/non_finite
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  DLTensor shape[2] = {*args[0], *args[1]};
  DLTensor* packed[2] = {&shape[0], &shape[1]};
  // attack:
  shape[0].strides = nullptr;
  shape[1].strides = nullptr;
  honest(packed);
  // honest:
  honest(packed);
  // end
  return 0;
}
