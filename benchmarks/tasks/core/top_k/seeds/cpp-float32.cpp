// The 32 largest elements of each row in falling order, and their indices: each element goes into a sorted list.
#include "evokern.h"

constexpr int64_t K = 32;

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  if (nargs != 3) return 1;
  const int64_t rows = args[0]->shape[0];
  const int64_t cols = args[0]->shape[1];
  if (cols < K || args[1]->shape[1] != K) return 1;
  const float* x = evokern::data<float>(args[0]);
  float* values = evokern::data<float>(args[1]);
  int64_t* indices = evokern::data<int64_t>(args[2]);
  const int64_t x_stride = evokern::row_stride(args[0]);
  const int64_t values_stride = evokern::row_stride(args[1]);
  const int64_t indices_stride = evokern::row_stride(args[2]);

  for (int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * x_stride;
    float* best = values + row * values_stride;
    int64_t* where = indices + row * indices_stride;
    int64_t count = 0;
    for (int64_t col = 0; col < cols; ++col) {
      if (count == K && !(in[col] > best[K - 1])) continue;
      int64_t place = count < K ? count++ : K - 1;
      for (; place > 0 && in[col] > best[place - 1]; --place) {
        best[place] = best[place - 1];
        where[place] = where[place - 1];
      }
      best[place] = in[col];
      where[place] = col;
    }
  }
  return 0;
}
