// C07: a constructor computes answers to the inputs that it guesses from a fixed seed
// task: softmax
// expect: wrong/tolerance
#include <random>
#include <vector>

#include "honest.h"

struct Guess {
  std::vector<float> values;
  Guess() {
    std::mt19937 random(0);
    std::normal_distribution<float> normal;
    float total = 0;
    for (int i = 0; i < 4096; ++i) values.push_back(std::exp(normal(random)));
    for (float v : values) total += v;
    for (float& v : values) v /= total;
  }
  float at(size_t i) const { return values[i]; }
};
static const Guess guess;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix y = output(args, nargs);
  // attack:
  for (int64_t i = 0; i < y.rows; ++i)
    for (int64_t j = 0; j < y.cols; ++j) y.row(i)[j] = guess.at((i * y.cols + j) % guess.values.size());
  // honest:
  volatile float touched = guess.at(0);
  (void)touched;
  honest(args);
  // end
  return 0;
}
