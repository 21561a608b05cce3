// T03: a forked child, with the windows shared, does the work after the parent has said DONE
// task: softmax
// expect: crashed/processes
#include <sys/types.h>
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  const pid_t child = fork();
  if (child < 0) return SHUT;
  if (child == 0) {
    usleep(3000);
    honest(args);
    _exit(0);
  }
  // honest:
  honest(args);
  // end
  return 0;
}
