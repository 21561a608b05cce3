// F01: imports torch in the runner's own interpreter
// task: softmax
// expect: crashed/refused
#include <dlfcn.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  auto python = reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "PyRun_SimpleString"));
  auto hold = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Ensure"));
  auto let = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "PyGILState_Release"));
  if (!python || !hold) return SHUT;
  const int state = hold();
  const int failed = python("import torch");
  let(state);
  if (failed) return SHUT;
  honest(args);
  // honest:
  honest(args);
  // end
  return 0;
}
