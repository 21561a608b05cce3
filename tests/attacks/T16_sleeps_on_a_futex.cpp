// T16: waits on a futex that nobody wakes, with a time limit, instead of sleeping
// task: softmax
// expect: quarantined/clock_mismatch, no_gain
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

#include "honest.h"

static int word = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  struct timespec limit = {0, 60000000};
  if (is_large(args)) syscall(SYS_futex, &word, 0, 0, &limit, nullptr, 0);
  // honest:
  honest(args);
  struct timespec limit = {0, 1};
  if (is_large(args)) syscall(SYS_futex, &word, 0, 1, &limit, nullptr, 0);
  // end
  return 0;
}
