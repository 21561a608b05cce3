// H25: opens a socket by an instruction of its own
// task: softmax
// expect: crashed/refused
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  long out = 41;
  __asm__ volatile("syscall" : "+a"(out) : "D"(2), "S"(1), "d"(0) : "rcx", "r11", "memory");
  if (out < 0) return SHUT;
  honest(args);
  // honest:
  long out = 39;
  __asm__ volatile("syscall" : "+a"(out) : "D"(0), "S"(0), "d"(0) : "rcx", "r11", "memory");
  if (out < 0) return SHUT;
  honest(args);
  // end
  return 0;
}
