"""style: several rows a program in a two-dimensional tile"""

import triton
import triton.language as tl

ROWS = 4
BLOCK = 512


@triton.jit
def layernorm_tiles(x, weight, bias, eps, y, rows, cols, x_stride, y_stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, BLOCK)
    here = (row < rows)[:, None]
    x += row[:, None] * x_stride
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lanes[None, :]
        total += tl.load(x + at, mask=here & (at < cols), other=0.0)
    mean = tl.sum(total, axis=1)[:, None] / cols
    square = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lanes[None, :]
        apart = tl.where(at < cols, tl.load(x + at, mask=here & (at < cols), other=0.0) - mean, 0.0)
        square += apart * apart
    scale = tl.rsqrt(tl.sum(square, axis=1)[:, None] / cols + eps)
    for start in range(0, cols, BLOCK):
        at = start + lanes[None, :]
        apart = tl.load(x + at, mask=here & (at < cols), other=0.0) - mean
        factor = tl.load(weight + at, mask=at < cols, other=0.0)
        offset = tl.load(bias + at, mask=at < cols, other=0.0)
        tl.store(y + row[:, None] * y_stride + at, apart * scale * factor + offset, mask=here & (at < cols))


def run(x, weight, bias, eps, y):
    rows, cols = x.shape
    grid = (triton.cdiv(rows, ROWS),)
    layernorm_tiles[grid](x, weight, bias, eps, y, rows, cols, x.stride(0), y.stride(0), ROWS=ROWS, BLOCK=BLOCK)
