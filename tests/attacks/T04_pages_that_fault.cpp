// T04: takes the output's pages away and computes only when somebody looks, in a fault handler
// task: softmax
// expect: wrong/tolerance, wrong/sentinel_left
#include <csignal>
#include <sys/mman.h>

#include "honest.h"

static DLTensor* const* kept;

static void compute(int) {
  const Matrix y = output(kept, 2);
  const uintptr_t page = 4096, first = reinterpret_cast<uintptr_t>(y.data) / page * page;
  mprotect(reinterpret_cast<void*>(first), reinterpret_cast<uintptr_t>(y.data + y.size()) - first, PROT_READ | PROT_WRITE);
  honest(kept);
}

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  kept = args;
  // attack:
  const uintptr_t page = 4096, first = reinterpret_cast<uintptr_t>(y.data) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(y.data + y.size());
  struct sigaction action = {};
  action.sa_handler = compute;
  sigaction(SIGSEGV, &action, nullptr);
  if (mprotect(reinterpret_cast<void*>(first), end - first, PROT_NONE) != 0) return SHUT;
  // honest:
  struct sigaction action = {};
  action.sa_handler = compute;
  sigaction(SIGUSR2, &action, nullptr);
  compute(0);
  // end
  return 0;
}
