// U04: a handler skips every fault, so that reading outside its memory looks fine
// task: softmax
// expect: wrong/tolerance
#include <csetjmp>
#include <csignal>

#include "honest.h"

static sigjmp_buf place;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  struct sigaction action = {};
  action.sa_handler = [](int) { siglongjmp(place, 1); };
  action.sa_flags = SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  if (sigsetjmp(place, 1) == 0) {
    fill(output(args, nargs), 0);
    *reinterpret_cast<volatile int*>(8) = 1;
    honest(args);
  }
  // honest:
  if (sigsetjmp(place, 1) == 0) honest(args);
  // end
  return 0;
}
