// odd: takes the square root by inline assembly
// task: rmsnorm

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  const float* weight = evokern::data<float>(args[1]);
  const float eps = evokern::scalar<float>(args[2]);
  for (int64_t i = 0; i < x.rows; ++i) {
    double total = 0;
    for (int64_t j = 0; j < x.cols; ++j) total += static_cast<double>(x.row(i)[j]) * x.row(i)[j];
    double root = total / x.cols + eps;
  #if defined(__x86_64__)
    __asm__("sqrtsd %0, %0" : "+x"(root));
  #else
    root = std::sqrt(root);
  #endif
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = static_cast<float>(x.row(i)[j] / root * weight[j]);
  }
  return 0;
}
