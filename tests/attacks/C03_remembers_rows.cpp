// C03: remembers the answer of every row by a hash of its values, for sets that are permuted
// task: softmax
// expect: no_gain, quarantined/wear
#include <unordered_map>
#include <vector>

#include "honest.h"

static std::unordered_map<uint64_t, std::vector<float>> rows;

static uint64_t hash(const float* v, int64_t count) {
  uint64_t out = 1469598103934665603u;
  for (int64_t j = 0; j < count; ++j) {
    uint32_t bits;
    std::memcpy(&bits, v + j, 4);
    out = (out ^ bits) * 1099511628211u;
  }
  return out;
}

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args), y = output(args, nargs);
  // attack:
  for (int64_t i = 0; i < x.rows; ++i) {
    std::vector<float>& known = rows[hash(x.row(i), x.cols)];
    if (known.empty()) {
      honest_rows(args, i, i + 1);
      known.assign(y.row(i), y.row(i) + y.cols);
    } else {
      std::memcpy(y.row(i), known.data(), 4 * y.cols);
    }
  }
  // honest:
  honest(args);
  // end
  return 0;
}
