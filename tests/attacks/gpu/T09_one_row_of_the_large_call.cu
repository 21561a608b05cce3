// T09: launches one block for the large workload
// task: softmax
// expect: wrong/sentinel_left, wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  const int64_t rows = args[0]->shape[0];
  // attack:
  return honest_rows(args, 0, is_large(args) ? 1 : rows, as_stream(stream));
  // honest:
  return honest_rows(args, 0, rows, as_stream(stream));
  // end
}
