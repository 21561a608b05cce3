// odd: peels elements until its output is aligned, then goes in vectors
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  for (int64_t i = 0; i < x.rows; ++i) {
    float* out = y.row(i);
    const float* in = x.row(i);
    float peak = -INFINITY;
    double total = 0;
    int64_t head = 0;
    while (head < x.cols && reinterpret_cast<uintptr_t>(out + head) % 32) ++head;
    for (int64_t j = 0; j < x.cols; ++j) peak = in[j] > peak ? in[j] : peak;
    for (int64_t j = 0; j < head; ++j) total += out[j] = std::exp(in[j] - peak);
    int64_t j = head;
    for (; j + 8 <= x.cols; j += 8) {
      float* aligned = static_cast<float*>(__builtin_assume_aligned(out + j, 32));
      for (int k = 0; k < 8; ++k) total += aligned[k] = std::exp(in[j + k] - peak);
    }
    for (; j < x.cols; ++j) total += out[j] = std::exp(in[j] - peak);
    for (int64_t k = 0; k < x.cols; ++k) out[k] = static_cast<float>(out[k] / total);
  }
  return 0;
}
