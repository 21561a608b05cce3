// T03: a thread launches the work after `run` has returned
// task: softmax
// expect: wrong/sentinel_left, wrong/tolerance, wrong/law, wrong/canary, wrong/non_finite, hacked/early_completion, hacked/residual_work, flaky/not_repeatable, crashed/device_error, crashed/signal
#include <chrono>
#include <thread>

#include "honest.h"

static void later(Matrix x, Matrix y, cudaStream_t stream) {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  softmax<<<static_cast<unsigned>(x.rows), THREADS, 0, stream>>>(x.data, x.stride, y.data, y.stride, static_cast<int>(x.cols));
}

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  std::thread worker(later, matrix(args[0]), matrix(args[1]), as_stream(stream));
  // attack:
  worker.detach();
  // honest:
  worker.join();
  // end
  return cudaGetLastError();
}
