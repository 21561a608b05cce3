"""Kernels that measure the machine: a call that does nothing, and a plain copy of the bytes that a task moves."""

from __future__ import annotations

from pathlib import Path

from evokern.kernel import Kernel

_NULL = """#include "evokern.h"

extern "C" int run(DLTensor* const*, int, void*, size_t, void*) { return 0; }
"""

# Outputs are told from inputs by place: in tasks of one output it is the last tensor, which is all that the copy needs.
_COPY = """#include <cstring>

#include "evokern.h"

static size_t row_bytes(const DLTensor* t) { return t->ndim ? t->shape[t->ndim - 1] * (t->dtype.bits / 8) : 0; }

static int64_t rows(const DLTensor* t) {
  int64_t count = 1;
  for (int i = 0; i + 1 < t->ndim; ++i) count *= t->shape[i];
  return count;
}

static char* row(const DLTensor* t, int64_t i) {
  return evokern::data<char>(t) + i * (t->ndim > 1 ? t->strides[t->ndim - 2] : 0) * (t->dtype.bits / 8);
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void*) {
  const DLTensor* out = args[nargs - 1];
  const DLTensor* in = args[0];
  for (int i = 1; i + 1 < nargs; ++i) {
    if (args[i]->ndim && rows(args[i]) * row_bytes(args[i]) > rows(in) * row_bytes(in)) in = args[i];
  }
  const size_t size = row_bytes(in);
  if (size == row_bytes(out) && rows(in) == rows(out)) {
    for (int64_t i = 0; i < rows(in); ++i) std::memcpy(row(out, i), row(in, i), size);
    return 0;
  }
  // A reduction: every input byte is read once, and next to nothing is written.
  uint64_t total = 0;
  for (int64_t i = 0; i < rows(in); ++i) {
    const char* from = row(in, i);
    size_t at = 0;
    for (; at + 8 <= size; at += 8) {
      uint64_t word;
      std::memcpy(&word, from + at, 8);
      total += word;
    }
  }
  *row(out, 0) = static_cast<char>(total);
  return 0;
}
"""

INSTRUMENTS = {"null": Kernel("cpp", _NULL), "copy": Kernel("cpp", _COPY)}
"""See `evokern.backend.Backend.instruments`."""

SERVER = Kernel("cpp", Path(__file__).with_name("serve.cpp").read_text(), entry="serve_calls")
"""See `evokern.backend.Backend.server`."""
