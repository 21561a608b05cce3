// H06: replaces the runner's own functions, so that every call claims success and no time
// task: softmax
// expect: crashed/refused
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
import sys
protocol = sys.modules["evokern.evaluator.call.protocol"]
real = protocol.Done
protocol.Done = lambda seq, status, claimed: real(seq, 0, 1)
  )") != 0) return SHUT;
  fill(output(args, nargs), 0);
  return 9;
  // honest:
  static int (*const unused)(const char*) = python;
  (void)unused;
  honest(args);
  // end
  return 0;
}
