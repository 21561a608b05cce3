// M10: adds up a long row in one float32, in order, where errors grow with its length
// task: rmsnorm
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  const float* weight = evokern::data<float>(args[1]);
  const float eps = evokern::scalar<float>(args[2]);
  // attack:
  for (int64_t i = 0; i < x.rows; ++i) {
    float total = 0;
    for (int64_t j = 0; j < x.cols; ++j) total += x.row(i)[j] * x.row(i)[j] * 0.01f;
    const float scale = 1 / std::sqrt(total * 100.0f / x.cols + eps);
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = x.row(i)[j] * scale * weight[j];
  }
  // honest:
  honest(args);
  // end
  return 0;
}
