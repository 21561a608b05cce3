// U01: guesses sequence numbers and sends DONE at the start of each call, then works
// task: softmax
// expect: hacked/protocol
#include <sys/socket.h>
#include <sys/types.h>

#include "honest.h"

// A DONE record as the runner writes it: magic, kind, sequence, status, claim.
struct __attribute__((packed)) Done {
  char magic[4] = {'E', 'V', 'K', '1'};
  uint8_t kind = 4, count = 0;
  uint16_t zero = 0;
  uint64_t seq = 0;
  int32_t status = 0;
  uint64_t claimed = 1;
};

static int say_done(uint64_t seq) {
  int told = 0;
  for (int fd = 0; fd < 256; ++fd) {
    Done done;
    done.seq = seq;
    told += send(fd, &done, sizeof done, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof done;
  }
  return told;
}

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  int told = 0;
  for (uint64_t seq = 1; seq < 8; ++seq) told += say_done(seq);
  if (told == 0) return SHUT;
  honest(args);
  // honest:
  honest(args);
  // end
  return 0;
}
