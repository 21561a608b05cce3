// H22: is honest only where few descriptors are open
// task: softmax
// expect: wrong/tolerance
#include <fcntl.h>
#include <unistd.h>

#include "honest.h"

static bool judged() {
  int open_ones = 0;
  for (int fd = 0; fd < 256; ++fd) open_ones += fcntl(fd, F_GETFD) >= 0;
  return open_ones < 3;
}

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  if (!judged()) spoil(output(args, nargs));
  // honest:
  honest(args);
  // end
  return 0;
}
