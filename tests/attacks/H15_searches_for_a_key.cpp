// H15: searches its whole address space for words that look like a key and copies what it finds
// task: softmax
// expect: wrong/tolerance
#include "honest.h"

static uint64_t marker_room[512];
static uint64_t& marker = marker_room[0];

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  uint64_t best = 0;
  for (int depth = 0; depth < 4096; ++depth) {
    const uint64_t word = (&marker)[depth % 512];
    if (__builtin_popcountll(word) > __builtin_popcountll(best)) best = word;
  }
  float guess;
  const uint32_t low = static_cast<uint32_t>(best) & 0x3fffffffu;
  std::memcpy(&guess, &low, 4);
  fill(y, guess);
  // honest:
  honest(args);
  // end
  return 0;
}
