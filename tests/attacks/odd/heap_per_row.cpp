// odd: allocates and frees for every row
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* in = x.row(i);
    float* out = y.row(i);
    float peak = -INFINITY;
    for (int64_t j = 0; j < x.cols; ++j) peak = in[j] > peak ? in[j] : peak;
    double total = 0.0;
    float* room = static_cast<float*>(std::malloc(4 * x.cols));
    for (int64_t j = 0; j < x.cols; ++j) total += room[j] = std::exp(in[j] - peak);
    for (int64_t j = 0; j < x.cols; ++j) out[j] = static_cast<float>(room[j] / total);
    std::free(room);
  }
  return 0;
}
