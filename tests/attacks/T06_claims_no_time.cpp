// T06: interposes the clock that the runner reads, so that every call claims to take nothing
// task: softmax
// expect: no_gain
#include <ctime>

#include "honest.h"

// attack:
extern "C" int clock_gettime(clockid_t, struct timespec* now) noexcept {
  now->tv_sec = now->tv_nsec = 0;
  return 0;
}
// honest:
// end

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  honest(args);
  // honest:
  honest(args);
  honest(args);
  // end
  return 0;
}
