"""RMSNorm over the last axis: y = x / sqrt(mean(x^2) + eps) * weight, a program a row, read twice."""

import triton
import triton.language as tl

BLOCK = 1024  # tune: 512 1024 2048 4096 8192
WARPS = 4  # tune: 1 2 4 8 16


@triton.jit
def rmsnorm_rows(x, weight, y, eps, cols, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * x_stride
    y += row * y_stride
    lanes = tl.arange(0, BLOCK)

    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        value = tl.load(x + at, mask=at < cols, other=0.0).to(tl.float32)
        squares += value * value
    scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / cols + eps)

    for start in range(0, cols, BLOCK):
        at = start + lanes
        value = tl.load(x + at, mask=at < cols, other=0.0).to(tl.float32)
        factor = tl.load(weight + at, mask=at < cols, other=0.0).to(tl.float32)
        tl.store(y + at, value * scale * factor, mask=at < cols)


def run(x, weight, eps, y):
    rows, cols = x.shape
    rmsnorm_rows[(rows,)](x, weight, y, eps, cols, x.stride(0), y.stride(0), BLOCK=BLOCK, num_warps=WARPS)
