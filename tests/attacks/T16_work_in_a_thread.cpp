// T16: lets another thread work while the caller sleeps, for a clock that sees one thread
// task: softmax
// expect: no_gain
#include <thread>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  std::thread worker([=] { honest(args); });
  worker.join();
  // honest:
  honest(args);
  // end
  return 0;
}
