// U01: sends megabytes of records that nobody asked for
// task: softmax
// expect: hacked/protocol
#include "honest.h"
#include "records.h"

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
