// T10: computes on every second call and hands out the previous answer on the others
// task: softmax
// expect: wrong/tolerance, wrong/sentinel_left
#include <vector>

#include "honest.h"

static int calls = 0;
static std::vector<float> kept;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  if (++calls % 2 == 0 && kept.size() == static_cast<size_t>(y.size())) {
    for (int64_t i = 0; i < y.rows; ++i) std::memcpy(y.row(i), &kept[i * y.cols], 4 * y.cols);
    return 0;
  }
  honest(args);
  // honest:
  ++calls;
  honest(args);
  // end
  kept.resize(y.size());
  for (int64_t i = 0; i < y.rows; ++i) std::memcpy(&kept[i * y.cols], y.row(i), 4 * y.cols);
  return 0;
}
