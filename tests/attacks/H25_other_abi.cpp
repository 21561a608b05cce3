// H25: forks through the 32-bit system call gate, whose numbers a filter may not know
// task: softmax
// expect: crashed/refused, crashed/signal
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  int out = 2;
  __asm__ volatile("int $0x80" : "+a"(out) : : "memory");
  if (out < 0) return SHUT;
  if (out == 0) _exit(0);
  honest(args);
  // honest:
  honest(args);
  // end
  return 0;
}
