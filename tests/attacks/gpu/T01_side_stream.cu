// T01: launches on a stream of its own and does not wait for it
// task: softmax
// expect: no_gain
#include "honest.h"

static cudaStream_t own = nullptr;

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  // attack:
  if (!own) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  return honest(args, own);
  // honest:
  return honest(args, as_stream(stream));
  // end
}
