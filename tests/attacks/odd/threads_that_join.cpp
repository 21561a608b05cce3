// odd: three threads share the rows and are joined
// task: softmax
#include <thread>
#include <vector>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const int64_t rows = input(args).rows;
  std::vector<std::thread> threads;
  for (int part = 0; part < 3; ++part) threads.emplace_back([=] { honest_rows(args, rows * part / 3, rows * (part + 1) / 3); });
  for (std::thread& thread : threads) thread.join();
  return 0;
}
