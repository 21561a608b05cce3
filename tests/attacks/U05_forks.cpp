// U05: forks two hundred children that sleep
// task: softmax
// expect: crashed/processes
#include <sys/types.h>
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  for (int i = 0; i < 200; ++i) {
    const pid_t child = fork();
    if (child < 0) return SHUT;
    if (child == 0)
      for (;;) sleep(1000);
  }
  honest(args);
  // honest:
  honest(args);
  // end
  return 0;
}
