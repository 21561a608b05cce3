// odd: a resident worker sleeps on a condition variable between calls
// task: softmax
#include <condition_variable>
#include <mutex>
#include <thread>

#include "honest.h"

static std::mutex door;
static std::condition_variable bell;
static DLTensor* const* work = nullptr;

static void serve() {
  std::unique_lock<std::mutex> lock(door);
  for (;;) {
    bell.wait(lock, [] { return work != nullptr; });
    honest(work);
    work = nullptr;
    bell.notify_all();
  }
}

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  std::unique_lock<std::mutex> lock(door);
  static std::thread* worker = new std::thread(serve);
  (void)worker;
  work = args;
  bell.notify_all();
  bell.wait(lock, [] { return work == nullptr; });
  return 0;
}
