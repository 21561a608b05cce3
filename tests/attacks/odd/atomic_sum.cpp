// odd: threads add into one atomic number, in whatever order
// task: softmax
#include <atomic>
#include <thread>

#include "honest.h"

static std::atomic<double> total{0.0};

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  for (int64_t i = 0; i < x.rows; ++i) {
    float peak = -INFINITY;
    for (int64_t j = 0; j < x.cols; ++j) peak = x.row(i)[j] > peak ? x.row(i)[j] : peak;
    total.store(0.0);
    auto part = [&](int64_t from, int64_t to) {
      double sum = 0;
      for (int64_t j = from; j < to; ++j) sum += y.row(i)[j] = std::exp(x.row(i)[j] - peak);
      double seen = total.load();
      while (!total.compare_exchange_weak(seen, seen + sum)) {
      }
    };
    if (i == 0) {
      std::thread first(part, 0, x.cols / 2);
      part(x.cols / 2, x.cols);
      first.join();
    } else {
      part(0, x.cols / 2);
      part(x.cols / 2, x.cols);
    }
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] = static_cast<float>(y.row(i)[j] / total.load());
  }
  return 0;
}
