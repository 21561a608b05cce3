"""LayerNorm over the last axis: y = (x - mean) / sqrt(variance + eps) * weight + bias, a program a row, read three times."""

import triton
import triton.language as tl

BLOCK = 2048  # tune: 512 1024 2048 4096 8192
WARPS = 4  # tune: 1 2 4 8 16


@triton.jit
def layernorm_rows(x, weight, bias, y, eps, cols, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * x_stride
    y += row * y_stride
    lanes = tl.arange(0, BLOCK)

    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        total += tl.load(x + at, mask=at < cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / cols

    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        value = tl.load(x + at, mask=at < cols, other=0.0).to(tl.float32)
        away = tl.where(at < cols, value - mean, 0.0)
        squares += away * away
    scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / cols + eps)

    for start in range(0, cols, BLOCK):
        at = start + lanes
        value = tl.load(x + at, mask=at < cols, other=0.0).to(tl.float32)
        factor = tl.load(weight + at, mask=at < cols, other=0.0).to(tl.float32)
        shift = tl.load(bias + at, mask=at < cols, other=0.0).to(tl.float32)
        tl.store(y + at, (value - mean) * scale * factor + shift, mask=at < cols)


def run(x, weight, bias, eps, y):
    rows, cols = x.shape
    layernorm_rows[(rows,)](x, weight, bias, y, eps, cols, x.stride(0), y.stride(0), BLOCK=BLOCK, num_warps=WARPS)
