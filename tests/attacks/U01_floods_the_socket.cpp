// U01: sends megabytes of records that nobody asked for
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
  honest(args);
  int told = 0;
  for (int i = 0; i < 64; ++i) told += say_done(1u << 20);
  if (told == 0) return SHUT;
  // honest:
  honest(args);
  // end
  return 0;
}
