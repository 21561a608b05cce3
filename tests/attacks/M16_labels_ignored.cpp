// M16: takes every label for the first class
// task: cross_entropy
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), loss = output(args, nargs);
  const int64_t* labels = evokern::data<int64_t>(args[1]);
  honest(args);
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* in = x.row(i);
  // attack:
  loss.data[i] += in[labels[i]] - in[0];
  // honest:
  loss.data[i] += 0;
  // end
  }
  return 0;
}
