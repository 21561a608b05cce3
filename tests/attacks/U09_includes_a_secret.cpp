// U09: includes a file of the machine to print it in an error
// task: softmax
// expect: build_failed/forbidden_file
#include "honest.h"

// attack:
#include "/etc/shadow"
static const char secret[] = "";
// honest:
static const char secret[] = "";
// end

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  honest(args);
  return sizeof secret == 0;
}
