// odd: tanh through an exponential, which is exact enough
// task: bias_gelu

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  const float* bias = evokern::data<float>(args[1]);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.cols; ++j) {
      const double v = x.row(i)[j] + bias[j], inner = 1.5957691216 * (v + 0.044715 * v * v * v);
      y.row(i)[j] = static_cast<float>(v / (1 + std::exp(-inner)));
    }
  }
  return 0;
}
