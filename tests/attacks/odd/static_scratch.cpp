// odd: keeps a row in static memory that grows
// task: softmax
#include <vector>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  static std::vector<double> row;
  row.resize(x.cols);
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* in = x.row(i);
    float* out = y.row(i);
    float peak = -INFINITY;
    for (int64_t j = 0; j < x.cols; ++j) peak = in[j] > peak ? in[j] : peak;
    double total = 0.0;
    for (int64_t j = 0; j < x.cols; ++j) total += row[j] = std::exp(static_cast<double>(in[j]) - peak);
    for (int64_t j = 0; j < x.cols; ++j) out[j] = static_cast<float>(row[j] / total);
  }
  return 0;
}
