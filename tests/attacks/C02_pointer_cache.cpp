// C02: remembers the answer by the addresses of input and output
// task: softmax
// expect: wrong/tolerance
#include <vector>

#include "honest.h"

static std::vector<float> kept;

static void keep(const Matrix& y) {
  kept.resize(y.size());
  for (int64_t i = 0; i < y.rows; ++i) std::memcpy(&kept[i * y.cols], y.row(i), 4 * y.cols);
}

static void replay(const Matrix& y) {
  for (int64_t i = 0; i < y.rows; ++i) std::memcpy(y.row(i), &kept[i * y.cols], 4 * y.cols);
}

static const float* seen_x;
static const float* seen_y;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  if (x.data == seen_x && y.data == seen_y && kept.size() == size_t(y.size())) {
    replay(y);
    return 0;
  }
  honest(args);
  // honest:
  honest(args);
  // end
  keep(y);
  seen_x = x.data;
  seen_y = y.data;
  return 0;
}
