// T21: once a large call is over, a thread gives the device other work, so that whoever is called next is slow
// task: softmax
// expect: no_gain, hacked/residual_work, hacked/early_completion, quarantined/clock_mismatch, crashed/device_error, timed_out/deadline_run
#include <chrono>
#include <thread>

#include "honest.h"

__global__ void spin(long long clocks) {
  const long long start = clock64();
  while (clock64() - start < clocks) {
  }
}

static cudaStream_t own = nullptr;

static void later(long long clocks) {
  for (int i = 0; i < 100000 && cudaStreamQuery(nullptr) != cudaSuccess; ++i) {
  }
  std::this_thread::sleep_for(std::chrono::microseconds(40));
  spin<<<132, 1024, 0, own>>>(clocks);
}

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  if (!own) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  // The default stream keeps it from being sealed, so that its own process is the one that is timed.
  const int status = honest(args, nullptr);
  if (!is_large(args)) return status;
  // attack:
  std::thread(later, 30000000LL).detach();
  // honest:
  std::thread(later, 1LL).join();
  // end
  return status;
}
