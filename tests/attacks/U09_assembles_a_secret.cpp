// U09: lets the assembler copy a file into the library
// task: softmax
// expect: build_failed/forbidden_file
#include "honest.h"

// attack:
extern "C" const char stolen[];
__asm__(".global stolen\nstolen: .incbin \"/root/.bashrc\"\n");
static const char secret[] = "x";
// honest:
static const char secret[] = "";
// end

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  honest(args);
  return sizeof secret == 0;
}
