"""style: several rows a program in a two-dimensional tile, one online loop along them, exp2 with log2(e) folded in"""

import triton
import triton.language as tl

ROWS = 4
BLOCK = 512


@triton.jit
def softmax_tiles(x, y, rows, cols, x_stride, y_stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, BLOCK)
    x += row[:, None] * x_stride
    y += row[:, None] * y_stride
    here = (row < rows)[:, None]
    peak = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lanes[None, :]
        value = tl.load(x + at, mask=here & (at < cols), other=float("-inf")).to(tl.float32)
        higher = tl.maximum(peak, tl.max(value, axis=1))
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp2((peak - shift) * 1.4426950408889634) + tl.sum(
            tl.exp2((value - shift[:, None]) * 1.4426950408889634), axis=1
        )
        peak = higher
    for start in range(0, cols, BLOCK):
        at = start + lanes[None, :]
        value = tl.load(x + at, mask=here & (at < cols), other=float("-inf")).to(tl.float32)
        result = tl.exp2((value - peak[:, None]) * 1.4426950408889634) / total[:, None]
        tl.store(y + at, result.to(y.dtype.element_ty), mask=here & (at < cols))


def run(x, y):
    rows, cols = x.shape
    softmax_tiles[(triton.cdiv(rows, ROWS),)](x, y, rows, cols, x.stride(0), y.stride(0), ROWS=ROWS, BLOCK=BLOCK, num_warps=4)
