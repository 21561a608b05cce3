// odd: the logarithm of a sum in base 2, one pass, brought back to base e at the end
// task: cross_entropy

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  const Matrix x = input(args);
  const int64_t* labels = evokern::data<int64_t>(args[1]);
  float* loss = evokern::data<float>(args[2]);
  const float log2e = 1.44269504f, ln2 = 0.693147181f;
  for (int64_t i = 0; i < x.rows; ++i) {
    const float* in = x.row(i);
    float peak = -__FLT_MAX__ / 2, total = 0;  // of x log2(e)
    for (int64_t j = 0; j < x.cols; ++j) {
      const float scaled = in[j] * log2e;
      if (scaled > peak) total = total * exp2f(peak - scaled), peak = scaled;
      total += exp2f(fmaf(in[j], log2e, -peak));
    }
    loss[i] = fmaf(peak + log2f(total), ln2, -in[labels[i]]);
  }
  return 0;
}
