// M26: allocates without end on the large workload, hoping that it is skipped
// task: softmax
// expect: crashed/memory, timed_out/deadline_run
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  if (is_large(args))
    for (int i = 0; i < 640; ++i) std::memset(std::malloc(64 << 20), 1, 64 << 20);
  honest(args);
  // honest:
  if (is_large(args)) std::free(std::malloc(64 << 20));
  honest(args);
  // end
  return 0;
}
