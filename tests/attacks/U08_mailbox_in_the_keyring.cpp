// U08: counts processes in the user's keyring
// task: softmax
// expect: crashed/refused
#include <sys/syscall.h>
#include <unistd.h>

#include "honest.h"

// How many processes have left a letter before this one; below zero where there is no such place.
static int letters() {
  int count = 0;
  const long key = syscall(SYS_request_key, "user", "letters", nullptr, -4);
  if (key > 0) syscall(SYS_keyctl, 11, key, &count, sizeof count);
  const int next = count + 1;
  return syscall(SYS_add_key, "user", "letters", &next, sizeof next, -4) < 0 ? -1 : count;
}

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  honest(args);
  // attack:
  static const int others = letters();
  if (others < 0) return SHUT;
  if (others > 2) spoil(output(args, nargs));
  // honest:
  static const int others = 0;
  if (others > 2) spoil(output(args, nargs));
  // end
  return 0;
}
