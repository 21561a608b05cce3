// T21: leaves a thread spinning, so that whoever is timed next is slow
// task: softmax
// expect: no_gain
#include <thread>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  static std::thread* spinner = new std::thread([] { for (;;) burn(1000); });
  (void)spinner;
  honest(args);
  // honest:
  std::thread brief([] { burn(1000); });
  brief.join();
  honest(args);
  // end
  return 0;
}
