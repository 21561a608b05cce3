// H06: makes the loader call nothing at all from the second call on, which nobody asks any more
// task: softmax
// expect: no_gain
#include <dlfcn.h>

#include "honest.h"

static int python(const char* text) {
  auto run_string = reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "PyRun_SimpleString"));
  auto hold = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Ensure"));
  auto let = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "PyGILState_Release"));
  if (!run_string || !hold || !let) return -1;
  const int state = hold(), failed = run_string(text);
  let(state);
  return failed;
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  // attack:
  if (python(R"(
import gc
for thing in gc.get_objects():
    if type(thing).__name__ == "LoadedKernel":
        type(thing).run = lambda self, go: 0
  )") != 0) return SHUT;
  honest(args);
  // honest:
  static int (*const unused)(const char*) = python;
  (void)unused;
  honest(args);
  // end
  return 0;
}
