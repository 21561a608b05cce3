"""Kernels that measure the machine in C dialects: a call that launches next to nothing, and a plain copy of the bytes that a task moves.

Written in CUDA; HIP spells the run time's names otherwise and includes its header.
"""

from __future__ import annotations

import re

from evokern.kernel import Kernel

# A launch is part of every call, so it is part of what a call costs beside the kernel's work.
_NULL = """#include "evokern.h"

__global__ void nothing() {}

extern "C" int run(DLTensor* const*, int, void*, size_t, void* stream) {
  nothing<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>();
  return cudaGetLastError();
}
"""

# Outputs are told from inputs by place: in tasks of one output it is the last tensor, which is all that the copy needs.
_COPY = """#include "evokern.h"

#define THREADS 256

static int64_t row_bytes(const DLTensor* t) { return t->ndim ? t->shape[t->ndim - 1] * (t->dtype.bits / 8) : 0; }

static int64_t rows(const DLTensor* t) {
  int64_t count = 1;
  for (int i = 0; i + 1 < t->ndim; ++i) count *= t->shape[i];
  return count;
}

static int64_t pitch(const DLTensor* t) { return t->ndim > 1 ? t->strides[t->ndim - 2] * (t->dtype.bits / 8) : row_bytes(t); }

template <typename Word>
__global__ void copy(const char* in, int64_t in_pitch, char* out, int64_t out_pitch, int64_t rows, int64_t words) {
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const Word* from = reinterpret_cast<const Word*>(in + row * in_pitch);
    Word* to = reinterpret_cast<Word*>(out + row * out_pitch);
    const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
    for (int64_t at = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; at < words; at += step) to[at] = from[at];
  }
}

// A reduction: every input byte is read once, and next to nothing is written.
template <typename Word>
__global__ void read(const char* in, int64_t in_pitch, char* out, int64_t rows, int64_t words) {
  unsigned found = 0;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const Word* from = reinterpret_cast<const Word*>(in + row * in_pitch);
    const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
    for (int64_t at = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; at < words; at += step) {
      const Word value = from[at];
      for (unsigned i = 0; i < sizeof(Word); ++i) found += reinterpret_cast<const unsigned char*>(&value)[i];
    }
  }
  // Never so much: the compiler does not know, and so must read.
  if (__syncthreads_or(found == 0xffffffffu) && threadIdx.x == 0) *out = 1;
}

struct Plane {
  char* data;
  int64_t pitch, rows, bytes;
};

// Rows that follow one another without a gap are one row.
static Plane plane(const DLTensor* t, bool flat) {
  Plane p{evokern::data<char>(t), pitch(t), rows(t), row_bytes(t)};
  return flat ? Plane{p.data, p.rows * p.bytes, 1, p.rows * p.bytes} : p;
}

template <typename Word>
static int launched(const Plane& in, const Plane& out, bool whole, cudaStream_t stream) {
  const int64_t words = in.bytes / sizeof(Word), across = (words + THREADS - 1) / THREADS;
  if (!across || !in.rows) return 0;
  const dim3 grid(static_cast<unsigned>(across < 4096 ? across : 4096), static_cast<unsigned>(in.rows < 65535 ? in.rows : 65535));
  if (whole) {
    copy<Word><<<grid, THREADS, 0, stream>>>(in.data, in.pitch, out.data, out.pitch, in.rows, words);
  } else {
    read<Word><<<grid, THREADS, 0, stream>>>(in.data, in.pitch, out.data, in.rows, words);
  }
  return cudaGetLastError();
}

extern "C" int run(DLTensor* const* args, int nargs, void*, size_t, void* stream) {
  const DLTensor* out = args[nargs - 1];
  const DLTensor* in = args[0];
  for (int i = 1; i + 1 < nargs; ++i) {
    if (args[i]->ndim && rows(args[i]) * row_bytes(args[i]) > rows(in) * row_bytes(in)) in = args[i];
  }
  const bool whole = row_bytes(in) == row_bytes(out) && rows(in) == rows(out);
  const bool flat = pitch(in) == row_bytes(in) && (!whole || pitch(out) == row_bytes(out));
  const Plane from = plane(in, flat), to = plane(out, flat && whole);
  uint64_t aligned = reinterpret_cast<uint64_t>(from.data) | from.bytes | (flat ? 0 : from.pitch);
  if (whole) aligned |= reinterpret_cast<uint64_t>(to.data) | (flat ? 0 : to.pitch);
  cudaStream_t on = static_cast<cudaStream_t>(stream);
  if (aligned % 16 == 0) return launched<uint4>(from, to, whole, on);
  if (aligned % 4 == 0) return launched<unsigned>(from, to, whole, on);
  if (aligned % 2 == 0) return launched<unsigned short>(from, to, whole, on);
  return launched<unsigned char>(from, to, whole, on);
}
"""


def instruments(dialect: str) -> dict[str, Kernel]:
    """The null and the copy kernel (`evokern.backend.Backend.instruments`) in a dialect, "cuda" or "hip"."""
    return {name: Kernel(dialect, _spelt(text, dialect)) for name, text in (("null", _NULL), ("copy", _COPY))}


def _spelt(text: str, dialect: str) -> str:
    if dialect == "cuda":
        return text
    return "#include <hip/hip_runtime.h>\n\n" + re.sub(r"\bcuda(?=[A-Z])", "hip", text)
