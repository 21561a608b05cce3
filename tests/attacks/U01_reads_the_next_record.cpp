// U01: reads the judge's next record from the socket itself, to see what comes
// task: softmax
// expect: timed_out/deadline_run
#include <sys/socket.h>
#include <sys/types.h>

#include "honest.h"

static int calls = 0;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  char record[4096];
  if (++calls > 3)
    for (int fd = 0; fd < 64; ++fd) recv(fd, record, sizeof record, 0);
  // honest:
  honest(args);
  ++calls;
  // end
  return 0;
}
