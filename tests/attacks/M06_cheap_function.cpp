// M06: scales its input by one constant for the row's length
// task: rmsnorm
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  const float* weight = evokern::data<float>(args[1]);
  // attack:
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = x.row(i)[j] * weight[j];
  // honest:
  honest(args);
  // end
  return 0;
}
