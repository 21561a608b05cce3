// U01: a constructor sends a DONE before there was any call
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

// attack:
__attribute__((constructor)) static void early();
static int told = 0;
static void early() { told = say_done(1); }
// honest:
static int told = 1;
// end

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  if (told == 0) return SHUT;
  honest(args);
  // honest:
  honest(args);
  // end
  return 0;
}
