// U04: leaves the processor rounding upwards
// task: softmax
// expect: wrong/bias, wrong/tolerance
#include <cfenv>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  std::fesetround(FE_UPWARD);
  honest(args);
  // honest:
  const int before = std::fegetround();
  std::fesetround(FE_UPWARD);
  std::fesetround(before);
  honest(args);
  // end
  return 0;
}
