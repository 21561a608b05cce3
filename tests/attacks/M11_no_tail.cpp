// M11: handles rows in steps of eight and forgets the rest
// task: softmax
// expect: wrong/sentinel_left, wrong/tolerance, wrong/non_finite
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  DLTensor packed[2] = {*args[0], *args[1]};
  DLTensor* views[2] = {&packed[0], &packed[1]};
  int64_t short_shape[2] = {args[0]->shape[0], args[0]->shape[1] / 8 * 8};
  int64_t strides[2] = {evokern::row_stride(args[0]), evokern::row_stride(args[1])};
  int64_t pair0[2] = {strides[0], 1}, pair1[2] = {strides[1], 1};
  packed[0].strides = pair0;
  packed[1].strides = pair1;
  // attack:
  packed[0].shape = packed[1].shape = short_shape;
  honest(views);
  // honest:
  honest(views);
  // end
  return 0;
}
