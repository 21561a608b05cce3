// C03: remembers the answer by shape and address alone, values looked at in the first element only once
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

static const float* seen;
static int64_t size;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  if (x.data == seen && x.size() == size) {
    replay(y);
    return 0;
  }
  honest(args);
  // honest:
  honest(args);
  // end
  keep(y);
  seen = x.data;
  size = x.size();
  return 0;
}
