// odd: reads floats as integers to find the maximum
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  for (int64_t i = 0; i < x.rows; ++i) {
    uint32_t best = 0;
    for (int64_t j = 0; j < x.cols; ++j) {
      uint32_t bits;
      std::memcpy(&bits, x.row(i) + j, 4);
      bits ^= bits >> 31 ? 0xffffffffu : 0x80000000u;
      best = bits > best ? bits : best;
    }
    best ^= best >> 31 ? 0x80000000u : 0xffffffffu;
    float peak;
    std::memcpy(&peak, &best, 4);
    double total = 0;
    for (int64_t j = 0; j < x.cols; ++j) total += y.row(i)[j] = std::exp(x.row(i)[j] - peak);
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = static_cast<float>(y.row(i)[j] / total);
  }
  return 0;
}
