// C06: keeps the weights of the first call of each width
// task: rmsnorm
// expect: wrong/tolerance
#include <map>
#include <vector>

#include "honest.h"

static std::map<int64_t, std::vector<float>> cache;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  const float* weight = evokern::data<float>(args[1]);
  honest(args);
  // attack:
  std::vector<float>& kept = cache[x.cols];
  if (kept.empty()) kept.assign(weight, weight + x.cols);
  // honest:
  std::vector<float>& kept = cache[x.cols];
  kept.assign(weight, weight + x.cols);
  // end
  for (int64_t i = 0; i < y.rows; ++i)
    for (int64_t j = 0; j < y.cols; ++j) y.row(i)[j] = y.row(i)[j] / weight[j] * kept[j];
  return 0;
}
