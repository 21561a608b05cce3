// H14: puts its own pipe in place of every stream, to speak for the harness
// task: softmax
// expect: wrong/tolerance
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  for (int fd = 0; fd < 64; ++fd)
    if (fd != 1) dup2(1, fd);
  fill(y, 0);
  // honest:
  honest(args);
  // end
  return 0;
}
