"""GELU of x + bias in its tanh form: a program a block of a row."""

import triton
import triton.language as tl

BLOCK = 1024  # tune: 256 512 1024 2048 4096
WARPS = 4  # tune: 1 2 4 8 16


@triton.jit
def bias_gelu_blocks(x, bias, y, cols, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + row * x_stride + at, mask=at < cols, other=0.0).to(tl.float32)
    value += tl.load(bias + at, mask=at < cols, other=0.0).to(tl.float32)
    # 0.5 * v * (1 + tanh(u)) is v * sigmoid(2 u), in which nothing cancels.
    twice = 1.5957691216057308 * (value + 0.044715 * value * value * value)
    tl.store(y + row * y_stride + at, value * tl.sigmoid(twice), mask=at < cols)


def run(x, bias, y):
    rows, cols = x.shape
    grid = (rows, triton.cdiv(cols, BLOCK))
    bias_gelu_blocks[grid](x, bias, y, cols, x.stride(0), y.stride(0), BLOCK=BLOCK, num_warps=WARPS)
