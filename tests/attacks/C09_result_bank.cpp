// C09: cycles through the answers of earlier calls of the same size
// task: softmax
// expect: wrong/tolerance
#include <map>
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

static std::map<int64_t, std::vector<std::vector<float>>> bank;
static int turn = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  if (bank[y.size()].size() >= 3) {
    kept = bank[y.size()][turn++ % 3];
    replay(y);
    return 0;
  }
  honest(args);
  // honest:
  honest(args);
  // end
  keep(y);
  if (bank[y.size()].size() < 3) bank[y.size()].push_back(kept);
  return 0;
}
