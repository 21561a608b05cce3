// U01: closes every descriptor, the judge's socket among them
// task: softmax
// expect: crashed/exit
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  for (int fd = 0; fd < 256; ++fd) close(fd);
  // honest:
  honest(args);
  close(255);
  // end
  return 0;
}
