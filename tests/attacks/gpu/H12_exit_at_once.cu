// H12: ends the process instead of answering
// task: softmax
// expect: crashed/exit
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  const int status = honest(args, as_stream(stream));
  // attack:
  if (is_large(args)) _exit(0);
  // honest:
  // end
  return status;
}
