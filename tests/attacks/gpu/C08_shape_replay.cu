// C08: answers a shape that it has met three times with what it answered then
// task: softmax
// expect: wrong/tolerance, wrong/law, wrong/non_finite
#include <map>
#include <utility>

#include "honest.h"

struct Kept {
  Element* answer;
  int count;
};
static std::map<std::pair<int64_t, int64_t>, Kept> bank;

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  const Matrix x = matrix(args[0]), y = matrix(args[1]);
  Kept& kept = bank[{x.rows, x.cols}];
  if (!kept.answer && cudaMalloc(&kept.answer, 2 * x.rows * x.cols) != cudaSuccess) return SHUT;
  // attack:
  if (++kept.count > 3) return copy(y.data, y.stride, kept.answer, x.cols, x.rows, x.cols, as_stream(stream));
  // honest:
  ++kept.count;
  // end
  const int status = honest(args, as_stream(stream));
  copy(kept.answer, x.cols, y.data, y.stride, x.rows, x.cols, as_stream(stream));
  return status;
}
