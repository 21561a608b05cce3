"""Product of two matrices: a program a tile of the product, tiles in groups of rows so that neighbours share what the cache holds."""

import triton
import triton.language as tl

TILE_M = 128  # tune: 16 32 64 128 256
TILE_N = 128  # tune: 32 64 128 256
TILE_K = 32  # tune: 32 64 128
GROUP = 8  # tune: 1 4 8 16
WARPS = 4  # tune: 4 8
STAGES = 3  # tune: 2 3 4 5


@triton.jit
def multiply_tiles(
    a, b, c, m, n, k, a_stride, b_stride, c_stride,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    down, across = tl.cdiv(m, TILE_M), tl.cdiv(n, TILE_N)
    group = tile // (GROUP * across)
    height = min(down - group * GROUP, GROUP)
    tile_m = group * GROUP + tile % (GROUP * across) % height
    tile_n = tile % (GROUP * across) // height

    row = tile_m.to(tl.int64) * TILE_M + tl.arange(0, TILE_M)
    col = tile_n.to(tl.int64) * TILE_N + tl.arange(0, TILE_N)
    inner = tl.arange(0, TILE_K)
    a += row[:, None] * a_stride + inner[None, :]
    b += inner[:, None].to(tl.int64) * b_stride + col[None, :]
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for start in range(0, k, TILE_K):
        left = tl.load(a, mask=(row < m)[:, None] & (inner < k - start)[None, :], other=0.0)
        right = tl.load(b, mask=(inner < k - start)[:, None] & (col < n)[None, :], other=0.0)
        total = tl.dot(left, right, total)
        a += TILE_K
        b += TILE_K * b_stride
    tl.store(c + row[:, None] * c_stride + col[None, :], total.to(c.dtype.element_ty), mask=(row < m)[:, None] & (col < n)[None, :])


def run(a, b, c):
    m, k = a.shape
    n = b.shape[1]
    multiply_tiles[(triton.cdiv(m, TILE_M) * triton.cdiv(n, TILE_N),)](
        a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0),
        TILE_M=TILE_M, TILE_N=TILE_N, TILE_K=TILE_K, GROUP=GROUP, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
