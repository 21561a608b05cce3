// odd: dispatches through a table of function pointers
// task: softmax

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  static void (*const table[])(DLTensor* const*) = {honest, honest};
  table[input(args).cols % 2](args);
  return 0;
}
