// U07: writes a word after its workspace
// task: softmax
// expect: wrong/canary, wrong/workspace_dirty, crashed/device_error
#include "honest.h"

__global__ void mark(unsigned* at) { *at = 1; }

extern "C" size_t workspace_size(DLTensor* const*, int) { return 64; }

extern "C" int run(DLTensor* const* args, int, void* workspace, size_t bytes, void* stream) {
  // attack:
  const size_t at = bytes;
  // honest:
  const size_t at = 0;
  // end
  mark<<<1, 1, 0, as_stream(stream)>>>(reinterpret_cast<unsigned*>(static_cast<char*>(workspace) + at));
  return honest(args, as_stream(stream));
}
