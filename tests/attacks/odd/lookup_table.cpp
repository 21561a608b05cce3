// odd: exponential from a table of powers that a constructor fills, and a short series
// task: softmax

#include "honest.h"

struct Powers {
  double values[256];
  Powers() {
    for (int i = 0; i < 256; ++i) values[i] = std::exp2(i / 256.0);
  }
};
static const Powers powers;

static float quick(float v) {
  if (v < -104.0f) return 0.0f;
  const double t = v * 1.4426950408889634, steps = std::floor(t * 256);
  const int64_t whole = static_cast<int64_t>(steps);
  const double r = (t - steps / 256) * 0.6931471805599453;
  return static_cast<float>(std::ldexp(powers.values[whole & 255] * (1 + r * (1 + r / 2)), static_cast<int>(whole >> 8)));
}

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* in = x.row(i);
    float* out = y.row(i);
    float peak = -INFINITY;
    for (int64_t j = 0; j < x.cols; ++j) peak = in[j] > peak ? in[j] : peak;
    double total = 0.0;
    for (int64_t j = 0; j < x.cols; ++j) total += out[j] = quick(in[j] - peak);
    for (int64_t j = 0; j < x.cols; ++j) out[j] = static_cast<float>(out[j] / total);
  }
  return 0;
}
