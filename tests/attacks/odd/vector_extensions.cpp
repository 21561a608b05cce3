// odd: GCC's vector types with unaligned loads by memcpy
// task: rmsnorm

#include "honest.h"

typedef float eight __attribute__((vector_size(32)));

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  const float* weight = evokern::data<float>(args[1]);
  const float eps = evokern::scalar<float>(args[2]);
  for (int64_t i = 0; i < x.rows; ++i) {
    eight sum = {};
    double rest = 0;
    int64_t j = 0;
    for (; j + 8 <= x.cols; j += 8) {
      eight v;
      std::memcpy(&v, x.row(i) + j, sizeof v);
      sum += v * v;
    }
    for (; j < x.cols; ++j) rest += static_cast<double>(x.row(i)[j]) * x.row(i)[j];
    for (int k = 0; k < 8; ++k) rest += sum[k];
    const float scale = static_cast<float>(1 / std::sqrt(rest / x.cols + eps));
    for (j = 0; j < x.cols; ++j) y.row(i)[j] = x.row(i)[j] * scale * weight[j];
  }
  return 0;
}
