"""Softmax over the last axis: a program a row, its blocks combined online, then read once more."""

import triton
import triton.language as tl

BLOCK = 2048  # tune: 512 1024 2048 4096 8192
WARPS = 4  # tune: 1 2 4 8 16


@triton.jit
def softmax_rows(x, y, cols, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * x_stride
    y += row * y_stride
    lanes = tl.arange(0, BLOCK)

    peak = float("-inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + lanes
        value = tl.load(x + at, mask=at < cols, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(peak, tl.max(value, axis=0))
        # A block of nothing but minus infinities adds nothing, and leaves no difference of infinities behind.
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(peak - shift) + tl.sum(tl.exp(value - shift), axis=0)
        peak = higher

    for start in range(0, cols, BLOCK):
        at = start + lanes
        value = tl.load(x + at, mask=at < cols, other=float("-inf")).to(tl.float32)
        tl.store(y + at, tl.exp(value - peak) / total, mask=at < cols)


def run(x, y):
    rows, cols = x.shape
    softmax_rows[(rows,)](x, y, cols, x.stride(0), y.stride(0), BLOCK=BLOCK, num_warps=WARPS)
