// T22: idles before each large call for a cooler processor
// task: softmax
// expect: quarantined/clock_mismatch, no_gain
#include <ctime>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  struct timespec pause = {0, 40000000};
  if (is_large(args)) nanosleep(&pause, nullptr);
  honest(args);
  // honest:
  struct timespec pause = {0, 0};
  if (is_large(args)) nanosleep(&pause, nullptr);
  honest(args);
  // end
  return 0;
}
