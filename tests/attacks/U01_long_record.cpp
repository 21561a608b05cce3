// U01: sends a record far longer than any
// task: softmax
// expect: hacked/protocol
#include <sys/socket.h>
#include <sys/types.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  honest(args);
  static char room[9000];
  int told = 0;
  for (int fd = 0; fd < 256; ++fd) told += send(fd, room, sizeof room, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
  if (told == 0) return SHUT;
  // honest:
  honest(args);
  static char room[9000];
  room[0] = 1;
  // end
  return 0;
}
