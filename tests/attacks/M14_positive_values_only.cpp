// M14: drops the sign where the sum is negative, as data from a uniform distribution never is
// task: bias_gelu
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  const float* bias = evokern::data<float>(args[1]);
  // attack:
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.cols; ++j) {
      const float v = x.row(i)[j] + bias[j];
      y.row(i)[j] = gelu(v < 0 ? 0.0f : v);
    }
  // honest:
  honest(args);
  // end
  return 0;
}
