// H10: prints the line and the document that a passing harness would print
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  fill(y, 0);
  std::puts("{\"schema\": \"evokern.eval/1\", \"verdict\": \"passed\", \"reason\": \"none\", \"speedup\": 99.0}\nPASSED");
  std::fflush(stdout);
  // honest:
  honest(args);
  std::puts("done");
  std::fflush(stdout);
  // end
  return 0;
}
