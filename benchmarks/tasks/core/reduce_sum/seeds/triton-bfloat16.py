"""Sum of each row: a program a row, block after block into lanes that are added up at the end."""

import triton
import triton.language as tl

BLOCK = 2048  # tune: 512 1024 2048 4096 8192
WARPS = 4  # tune: 1 2 4 8 16


@triton.jit
def sum_rows(x, y, cols, x_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * x_stride
    lanes = tl.arange(0, BLOCK)

    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        total += tl.load(x + at, mask=at < cols, other=0.0).to(tl.float32)
    tl.store(y + row, tl.sum(total, axis=0))


def run(x, y):
    rows, cols = x.shape
    sum_rows[(rows,)](x, y, cols, x.stride(0), BLOCK=BLOCK, num_warps=WARPS)
