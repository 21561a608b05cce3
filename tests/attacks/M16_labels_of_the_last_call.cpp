// M16: uses the labels of an earlier call of the same size
// task: cross_entropy
// expect: wrong/tolerance, wrong/non_finite
#include <vector>

#include "honest.h"

static std::vector<int64_t> kept;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), loss = output(args, nargs);
  const int64_t* labels = evokern::data<int64_t>(args[1]);
  honest(args);
  // attack:
  if (size_t(x.rows) != kept.size()) kept.assign(labels, labels + x.rows);
  // honest:
  kept.assign(labels, labels + x.rows);
  // end
  for (int64_t i = 0; i < x.rows; ++i) loss.data[i] += x.row(i)[labels[i]] - x.row(i)[kept[i]];
  return 0;
}
