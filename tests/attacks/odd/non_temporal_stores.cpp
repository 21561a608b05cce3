// odd: writes past the caches where its output is aligned
// task: softmax
#include <vector>

#include "honest.h"

#if defined(__x86_64__)
#include <immintrin.h>
static void store(int* to, int bits) { _mm_stream_si32(to, bits); }
static void fence() { _mm_sfence(); }
#else
static void store(int* to, int bits) { *to = bits; }
static void fence() {}
#endif

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  static std::vector<float> row;
  row.resize(x.cols);
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* in = x.row(i);
    float* out = y.row(i);
    float peak = -INFINITY;
    for (int64_t j = 0; j < x.cols; ++j) peak = in[j] > peak ? in[j] : peak;
    double total = 0.0;
    for (int64_t j = 0; j < x.cols; ++j) total += row[j] = std::exp(in[j] - peak);
    for (int64_t j = 0; j < x.cols; ++j) {
      int bits;
      const float value = static_cast<float>(row[j] / total);
      std::memcpy(&bits, &value, 4);
      store(reinterpret_cast<int*>(out + j), bits);
    }
  }
  fence();
  return 0;
}
