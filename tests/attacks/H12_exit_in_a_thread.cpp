// H12: ends the process from a second thread while the first still works
// task: softmax
// expect: crashed/exit
#include <thread>
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  std::thread([] { _exit(0); }).join();
  honest(args);
  // honest:
  std::thread([] {}).join();
  honest(args);
  // end
  return 0;
}
