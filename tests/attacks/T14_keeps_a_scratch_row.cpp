// T14: takes 16 KiB of scratch in every call and never gives them back
// task: rmsnorm
// expect: quarantined/wear
#include "honest.h"

static float* volatile scratch;  // volatile, so that the compiler cannot do without it

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  constexpr size_t BYTES = 16 << 10;
  scratch = static_cast<float*>(std::malloc(BYTES));
  std::memset(scratch, 1, BYTES);
  honest(args);
  // attack:
  scratch = nullptr;
  // honest:
  std::free(scratch);
  // end
  return 0;
}
