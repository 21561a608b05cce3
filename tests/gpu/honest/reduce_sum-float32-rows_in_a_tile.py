"""style: several rows a program in a two-dimensional tile, a heuristic for its height"""

import triton
import triton.language as tl


@triton.heuristics({"ROWS": lambda args: 16 if args["cols"] <= 512 else 4})
@triton.jit
def sum_tiles(x, y, rows, cols, x_stride, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lanes[None, :]
        total += tl.load(x + row[:, None] * x_stride + at, mask=(row < rows)[:, None] & (at < cols), other=0.0)
    tl.store(y + row, tl.sum(total, axis=1), mask=row < rows)


def run(x, y):
    rows, cols = x.shape
    sum_tiles[lambda meta: (triton.cdiv(rows, meta["ROWS"]),)](x, y, rows, cols, x.stride(0), BLOCK=256, num_warps=4)
