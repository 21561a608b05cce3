"""Transpose of a matrix, written out: a program a square tile."""

import triton
import triton.language as tl

TILE = 64  # tune: 16 32 64 128
WARPS = 4  # tune: 1 2 4 8


@triton.jit
def transpose_tiles(x, y, rows, cols, x_stride, y_stride, across, TILE: tl.constexpr):
    tile = tl.program_id(0)
    row = (tile // across).to(tl.int64) * TILE + tl.arange(0, TILE)
    col = (tile % across).to(tl.int64) * TILE + tl.arange(0, TILE)
    value = tl.load(x + row[:, None] * x_stride + col[None, :], mask=(row < rows)[:, None] & (col < cols)[None, :])
    tl.store(y + col[:, None] * y_stride + row[None, :], tl.trans(value), mask=(col < cols)[:, None] & (row < rows)[None, :])


def run(x, y):
    rows, cols = x.shape
    across = triton.cdiv(cols, TILE)
    transpose_tiles[(triton.cdiv(rows, TILE) * across,)](x, y, rows, cols, x.stride(0), y.stride(0), across, TILE=TILE, num_warps=WARPS)
