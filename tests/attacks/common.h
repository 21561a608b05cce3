// What the kernels of the corpus share: views on arguments, and small tricks that many of them play.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "evokern.h"

// Status of an attack that found its door shut: it does no work then, so that an open door would show.
constexpr int SHUT = 70;

struct Matrix {
  float* data;
  int64_t rows, cols, stride;
  float* row(int64_t i) const { return data + i * stride; }
  int64_t size() const { return rows * cols; }
};

static inline Matrix matrix(const DLTensor* t) {
  const int64_t cols = t->ndim > 1 ? t->shape[1] : 1;
  return {evokern::data<float>(t), t->shape[0], cols, t->ndim > 1 ? evokern::row_stride(t) : 1};
}

static inline Matrix input(DLTensor* const* args) { return matrix(args[0]); }

// The output is the last argument in every task here.
static inline Matrix output(DLTensor* const* args, int nargs) { return matrix(args[nargs - 1]); }

// Whether a call is on the workload that is timed.
static inline bool is_large(DLTensor* const* args) { return input(args).size() == 1024 * 2048; }

static inline void fill(const Matrix& y, float value) {
  for (int64_t i = 0; i < y.rows; ++i)
    for (int64_t j = 0; j < y.cols; ++j) y.row(i)[j] = value;
}

// A wrong answer that is near enough to fool a glance: every row half as large again.
static inline void spoil(const Matrix& y) {
  for (int64_t i = 0; i < y.rows; ++i)
    for (int64_t j = 0; j < y.cols; ++j) y.row(i)[j] *= 1.5f;
}

// The arguments of a call, for whoever works on after it: they themselves live no longer than the call.
static inline DLTensor* const* keep(DLTensor* const* args, int nargs) {
  constexpr int MOST_DIMS = 4;
  struct Copy {
    DLTensor tensor;
    int64_t shape[MOST_DIMS], strides[MOST_DIMS];
    double scalar;
  };
  auto* copies = new Copy[nargs];
  auto** kept = new DLTensor*[nargs];
  for (int i = 0; i < nargs; ++i) {
    Copy& copy = copies[i];
    copy.tensor = *args[i];
    for (int d = 0; d < args[i]->ndim; ++d) {
      copy.shape[d] = args[i]->shape[d];
      copy.strides[d] = args[i]->strides[d];
    }
    copy.tensor.shape = copy.shape;
    copy.tensor.strides = copy.strides;
    if (args[i]->ndim == 0) {
      std::memcpy(&copy.scalar, args[i]->data, (args[i]->dtype.bits + 7) / 8);
      copy.tensor.data = &copy.scalar;
    }
    kept[i] = &copy.tensor;
  }
  return kept;
}

// Costs about a nanosecond a turn and cannot be optimised away.
static inline void burn(int64_t turns) {
  for (volatile int64_t i = 0; i < turns; i = i + 1) {
  }
}
