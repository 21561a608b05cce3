// U05: starts five hundred threads that sleep
// task: softmax
// expect: crashed/refused
#include <pthread.h>
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  static pthread_t threads[500];
  for (pthread_t& thread : threads)
    if (pthread_create(&thread, nullptr, [](void*) -> void* { for (;;) sleep(1000); }, nullptr) != 0) return SHUT;
  honest(args);
  // honest:
  pthread_t thread;
  if (pthread_create(&thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr) == 0) pthread_join(thread, nullptr);
  honest(args);
  // end
  return 0;
}
