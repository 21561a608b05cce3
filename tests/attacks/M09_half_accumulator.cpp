// M09: adds up in a float with ten bits of fraction
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

static float coarse(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, 4);
  bits = (bits + 0x1000u) & 0xffffe000u;
  std::memcpy(&v, &bits, 4);
  return v;
}

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  honest(args);
  // attack:
  for (int64_t i = 0; i < x.rows; ++i) {
    float total = 0;
    for (int64_t j = 0; j < x.cols; ++j) total = coarse(total + y.row(i)[j]);
    for (int64_t j = 0; j < x.cols; ++j) y.row(i)[j] /= total;
  }
  // honest:
  // end
  return 0;
}
