// M04: takes the affine weight for ones
// task: rmsnorm
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  const float* weight = evokern::data<float>(args[1]);
  honest(args);
  // attack:
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] /= weight[j];
  // honest:
  // end
  return 0;
}
