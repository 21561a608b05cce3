// H17: changes read-only code of its own process through /proc/self/mem
// task: softmax
// expect: crashed/refused
#include <fcntl.h>
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  const int file = open("/proc/self/mem", O_RDWR);
  if (file < 0) return SHUT;
  close(file);
  honest(args);
  // honest:
  honest(args);
  // end
  return 0;
}
