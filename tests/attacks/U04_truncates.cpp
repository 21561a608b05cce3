// U04: rounds every output towards zero, half a unit on average
// task: softmax
// expect: wrong/bias
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* in = x.row(i);
    float* out = y.row(i);
    float peak = -INFINITY;
    double total = 0;
    for (int64_t j = 0; j < x.cols; ++j) peak = in[j] > peak ? in[j] : peak;
    for (int64_t j = 0; j < x.cols; ++j) total += std::exp(static_cast<double>(in[j]) - peak);
    for (int64_t j = 0; j < x.cols; ++j) {
      const double v = std::exp(static_cast<double>(in[j]) - peak) / total;
  // attack:
  const float near = static_cast<float>(v);
  out[j] = near > v ? std::nextafter(near, 0.0f) : near;
  // honest:
  out[j] = static_cast<float>(v);
  // end
  }
  }
  return 0;
}
