// T11: launches one row alone while its stream is captured, and all of them otherwise
// task: softmax
// expect: wrong/sentinel_left, wrong/tolerance
#include "honest.h"

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  int64_t rows = args[0]->shape[0];
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(as_stream(stream), &status);
  // attack:
  if (status != cudaStreamCaptureStatusNone) rows = 1;
  // honest:
  if (status == cudaStreamCaptureStatusInvalidated) rows = 1;
  // end
  return honest_rows(args, 0, rows, as_stream(stream));
}
