// T02: gives half of the rows to another stream, which it never joins
// task: softmax
// expect: no_gain, wrong/sentinel_left, wrong/tolerance
#include "honest.h"

static cudaStream_t own = nullptr;

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  const int64_t rows = args[0]->shape[0];
  if (!own) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  // attack:
  honest_rows(args, 0, rows / 2, own);
  // honest:
  honest_rows(args, 0, rows / 2, as_stream(stream));
  // end
  return honest_rows(args, rows / 2, rows - rows / 2, as_stream(stream));
}
