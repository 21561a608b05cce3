// U01: guesses sequence numbers and sends DONE at the start of each call, then works
// task: softmax
// expect: hacked/protocol
#include "honest.h"
#include "records.h"

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
