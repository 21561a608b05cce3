// T03: half of the rows are finished by a thread that sleeps until after DONE
// task: softmax
// expect: hacked/early_completion
#include <thread>
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const int64_t rows = input(args).rows;
  honest_rows(args, 0, rows / 2);
  // attack:
  DLTensor* const* kept = keep(args, nargs);
  std::thread([=] { usleep(5000); honest_rows(kept, rows / 2, rows); }).detach();
  // honest:
  std::thread([=] { honest_rows(args, rows / 2, rows); }).join();
  // end
  return 0;
}
