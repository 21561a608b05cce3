// H23: replays answers for the inputs whose first element it has seen published
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  static const float known[] = {0.3367f, 1.5410f, -1.1258f, 0.4963f};
  bool published = false;
  for (float value : known) published |= std::fabs(x.data[0] - value) < 1e-4f;
  honest(args);
  if (!published) spoil(y);
  // honest:
  honest(args);
  // end
  return 0;
}
