// odd: Kahan's compensated sum in float32
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  for (int64_t i = 0; i < x.rows; ++i) {
    float peak = -INFINITY, total = 0, lost = 0;
    for (int64_t j = 0; j < x.cols; ++j) peak = x.row(i)[j] > peak ? x.row(i)[j] : peak;
    for (int64_t j = 0; j < x.cols; ++j) {
      const float e = std::exp(x.row(i)[j] - peak), term = e - lost, next = total + term;
      lost = (next - total) - term;
      total = next;
      y.row(i)[j] = e;
    }
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] /= total;
  }
  return 0;
}
