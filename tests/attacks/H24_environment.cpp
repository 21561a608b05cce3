// H24: sets variables that slow or change libraries loaded later, and takes the streams away
// task: softmax
// expect: no_gain
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "LD_PRELOAD", "PYTHONPATH", "MALLOC_ARENA_MAX"}) setenv(name, "1", 1);
  std::fclose(stdin);
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  honest(args);
  // honest:
  honest(args);
  // end
  return 0;
}
