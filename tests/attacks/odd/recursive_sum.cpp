// odd: adds up by halves, recursively
// task: softmax

#include "honest.h"

static float sum(const float* v, int64_t count) {
  if (count > 16) return sum(v, count / 2) + sum(v + count / 2, count - count / 2);
  float total = 0;
  for (int64_t j = 0; j < count; ++j) total += v[j];
  return total;
}

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  for (int64_t i = 0; i < x.rows; ++i) {
    float peak = -INFINITY;
    for (int64_t j = 0; j < x.cols; ++j) peak = x.row(i)[j] > peak ? x.row(i)[j] : peak;
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = std::exp(x.row(i)[j] - peak);
    const float total = sum(y.row(i), x.cols);
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] /= total;
  }
  return 0;
}
