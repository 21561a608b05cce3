// U04: keeps the work for a static destructor that runs when the process ends
// task: softmax
// expect: wrong/sentinel_left, wrong/tolerance
#include "honest.h"

struct Late {
  DLTensor* const* args = nullptr;
  ~Late() {
    if (args) honest(args);
  }
};
static Late late;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  late.args = args;
  // honest:
  late.args = nullptr;
  honest(args);
  // end
  return 0;
}
