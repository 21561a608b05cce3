// C08: remembers the answer by shape
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

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  if (kept.size() == size_t(y.size())) {
    replay(y);
    return 0;
  }
  honest(args);
  // honest:
  honest(args);
  // end
  keep(y);
  return 0;
}
