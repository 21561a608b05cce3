// T16: lets a child process work while the parent waits, for a clock that sees one process
// task: softmax
// expect: crashed/processes
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  const pid_t child = fork();
  if (child < 0) return SHUT;
  if (child == 0) {
    honest(args);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  // honest:
  honest(args);
  // end
  return 0;
}
