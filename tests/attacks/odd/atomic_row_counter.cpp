// odd: threads take rows from an atomic counter
// task: softmax
#include <atomic>
#include <thread>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  std::atomic<int64_t> next{0};
  const int64_t rows = input(args).rows;
  auto work = [&] {
    for (int64_t i; (i = next.fetch_add(1)) < rows;) honest_rows(args, i, i + 1);
  };
  std::thread other(work);
  work();
  other.join();
  return 0;
}
