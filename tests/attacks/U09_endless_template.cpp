// U09: makes the compiler work without end
// task: softmax
// expect: build_failed/compiler, build_failed/memory, timed_out/deadline_build
#include "honest.h"

// attack:
template <int N, int M> struct Loop { enum { value = Loop<N - 1, M>::value + Loop<N - 1, M + 1>::value }; };
template <int M> struct Loop<0, M> { enum { value = M }; };
static const char secret[1 + Loop<800, 0>::value % 2] = {};
// honest:
static const char secret[] = "";
// end

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  honest(args);
  return sizeof secret == 0;
}
