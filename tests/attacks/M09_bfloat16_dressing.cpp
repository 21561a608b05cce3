// M09: computes in bfloat16 and writes float32
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  honest(args);
  // attack:
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.cols; ++j) {
      uint32_t bits;
      std::memcpy(&bits, &y.row(i)[j], 4);
      bits = (bits + 0x8000u) & 0xffff0000u;
      std::memcpy(&y.row(i)[j], &bits, 4);
    }
  // honest:
  // end
  return 0;
}
