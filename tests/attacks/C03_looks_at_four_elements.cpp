// C03: knows the last call again by its shape and four of its elements: of nine rows five may change without its seeing
// task: softmax
// expect: wrong/tolerance, wrong/law, wrong/non_finite
#include <vector>

#include "honest.h"

static std::vector<float> kept;
static uint64_t last;

static uint64_t looked_at(const Matrix& x) {
  uint64_t seen = 1469598103934665603u ^ (x.rows * 1315423911u + x.cols);
  for (int64_t part = 0; part < 4; ++part) {
    const int64_t at = part * x.size() / 4;
    uint32_t bits;
    std::memcpy(&bits, x.row(at / x.cols) + at % x.cols, 4);
    seen = (seen ^ bits) * 1099511628211u;
  }
  return seen;
}

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  const uint64_t seen = looked_at(x);
  // attack:
  const bool again = seen == last;
  // honest:
  const bool again = seen == last && kept.empty();
  // end
  if (!again) honest(args);
  for (int64_t i = 0; again && i < y.rows; ++i) std::memcpy(y.row(i), &kept[i * y.cols], 4 * y.cols);
  last = seen;
  kept.resize(y.size());
  for (int64_t i = 0; i < y.rows; ++i) std::memcpy(&kept[i * y.cols], y.row(i), 4 * y.cols);
  return 0;
}
