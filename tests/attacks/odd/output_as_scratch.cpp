// odd: uses its output for intermediate results, several times over
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  for (int64_t i = 0; i < x.rows; ++i) {
    float* out = y.row(i);
    std::memcpy(out, x.row(i), 4 * x.cols);
    float peak = -INFINITY;
    for (int64_t j = 0; j < x.cols; ++j) peak = out[j] > peak ? out[j] : peak;
    for (int64_t j = 0; j < x.cols; ++j) out[j] -= peak;
    for (int64_t j = 0; j < x.cols; ++j) out[j] = std::exp(out[j]);
    double total = 0;
    for (int64_t j = 0; j < x.cols; ++j) total += out[j];
    for (int64_t j = 0; j < x.cols; ++j) out[j] = static_cast<float>(out[j] / total);
  }
  return 0;
}
