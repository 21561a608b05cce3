// odd: takes logsumexp in base 2, its maximum too, and multiplies by ln(2) at the end
// task: cross_entropy

#include "honest.h"

constexpr float LOG2_E = 1.44269504f, LN_2 = 0.69314718f;

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  constexpr int LANES = 16;  // as a vector register has them
  const Matrix x = input(args);
  const int64_t* labels = evokern::data<int64_t>(args[1]);
  float* loss = evokern::data<float>(args[2]);
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* in = x.row(i);
    float peak = -INFINITY, part[LANES] = {}, total = 0;
    for (int64_t j = 0; j < x.cols; ++j) peak = in[j] > peak ? in[j] : peak;
    const float shift = peak * LOG2_E;
    for (int64_t j = 0; j < x.cols; ++j) part[j % LANES] += exp2f(in[j] * LOG2_E - shift);
    for (const float lane : part) total += lane;
    loss[i] = (shift + log2f(total)) * LN_2 - in[labels[i]];
  }
  return 0;
}
