// F01: loads PyTorch's library and lets it do the work
// task: softmax
// expect: crashed/refused
#include <dlfcn.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  for (const char* name : {"libtorch_cpu.so", "libtorch.so", "libmkl_rt.so", "libopenblas.so"}) {
    if (dlopen(name, RTLD_NOW)) {
      honest(args);
      return 0;
    }
  }
  return SHUT;
  // honest:
  honest(args);
  // end
  return 0;
}
