// U05: takes memory in small pieces until there is none
// task: softmax
// expect: crashed/memory
#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  for (int i = 0; i < 4000000; ++i) {
    char* piece = static_cast<char*>(std::malloc(8192));
    if (!piece) std::abort();
    std::memset(piece, 1, 8192);
  }
  honest(args);
  // honest:
  for (int i = 0; i < 400; ++i) std::free(std::malloc(8192));
  honest(args);
  // end
  return 0;
}
