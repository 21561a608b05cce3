"""Kernels that measure the machine: a call that launches nothing, and a plain copy of the bytes that a task moves."""

from __future__ import annotations

from evokern.kernel import Kernel

_NULL = '''def run(*arguments):
    """Return at once."""
'''

# Outputs are told from inputs by place: in tasks of one output it is the last tensor, which is all that the copy needs.
_COPY = """import triton
import triton.language as tl

BLOCK = 4096


@triton.jit
def copy_rows(x, y, cols, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + row * y_stride + at, tl.load(x + row * x_stride + at, mask=at < cols, other=0), mask=at < cols)


@triton.jit
def read_rows(x, y, cols, x_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + row * x_stride + at, mask=at < cols, other=0).to(tl.float32))
    # One number in the end: nobody writes what no total can be, and the compiler does not know that.
    tl.store(y, total, mask=total == 1.2345e38)


def rows_of(tensor):
    cols = tensor.shape[-1]
    rows = tensor.numel() // max(cols, 1)
    return rows, cols, tensor.stride(-2) if tensor.ndim > 1 else cols


def run(*arguments):
    tensors = [one for one in arguments if hasattr(one, "data_ptr")]
    y = tensors[-1]
    x = max(tensors[:-1], key=lambda one: one.numel() * one.element_size())
    rows, cols, x_stride = rows_of(x)
    grid = (rows, triton.cdiv(cols, BLOCK))
    if rows_of(y)[:2] == (rows, cols):
        copy_rows[grid](x, y, cols, x_stride, rows_of(y)[2], BLOCK=BLOCK, num_warps=8)
    else:
        # A reduction: every input byte is read once, and next to nothing is written.
        read_rows[grid](x, y, cols, x_stride, BLOCK=BLOCK, num_warps=8)
"""

INSTRUMENTS = {"null": Kernel("triton", _NULL), "copy": Kernel("triton", _COPY)}
"""See `evokern.backend.Backend.instruments`."""
