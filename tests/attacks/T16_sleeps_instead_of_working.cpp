// T16: sleeps through most of a call, for a clock that counts work alone
// task: softmax
// expect: quarantined/clock_mismatch, no_gain
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  if (is_large(args)) usleep(60000);
  // honest:
  honest(args);
  if (is_large(args)) usleep(0);
  // end
  return 0;
}
