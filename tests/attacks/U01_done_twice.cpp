// U01: sends a second DONE with the number of its own call count
// task: softmax
// expect: hacked/protocol
#include "honest.h"
#include "records.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  static uint64_t calls = 1;
  honest(args);
  if (say_done(++calls) == 0) return SHUT;
  // honest:
  static uint64_t calls = 1;
  honest(args);
  ++calls;
  // end
  return 0;
}
