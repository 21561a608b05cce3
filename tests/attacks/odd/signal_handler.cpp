// odd: installs a handler for a signal that never comes
// task: softmax
#include <csignal>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  static const bool once = (std::signal(SIGUSR1, [](int) {}), true);
  (void)once;
  honest(args);
  return 0;
}
