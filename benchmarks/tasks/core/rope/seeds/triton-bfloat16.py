"""Rotary position embedding: each pair (x[i], x[i + half]) of a head is turned by its token's angle, a program a block of a token."""

import triton
import triton.language as tl

BLOCK = 1024  # tune: 128 256 512 1024 2048
WARPS = 4  # tune: 1 2 4 8


@triton.jit
def rope_blocks(x, cos, sin, y, heads, half, x_row, x_head, cos_stride, sin_stride, y_row, y_head, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = at < heads * half
    head = at // half
    col = at % half

    cosine = tl.load(cos + row * cos_stride + col, mask=there, other=0.0).to(tl.float32)
    sine = tl.load(sin + row * sin_stride + col, mask=there, other=0.0).to(tl.float32)
    x += row * x_row + head * x_head + col
    y += row * y_row + head * y_head + col
    first = tl.load(x, mask=there, other=0.0).to(tl.float32)
    second = tl.load(x + half, mask=there, other=0.0).to(tl.float32)
    tl.store(y, first * cosine - second * sine, mask=there)
    tl.store(y + half, second * cosine + first * sine, mask=there)


def run(x, cos, sin, y):
    rows, heads, _ = x.shape
    half = cos.shape[1]
    grid = (rows, triton.cdiv(heads * half, BLOCK))
    strides = x.stride(0), x.stride(1), cos.stride(0), sin.stride(0), y.stride(0), y.stride(1)
    rope_blocks[grid](x, cos, sin, y, heads, half, *strides, BLOCK=BLOCK, num_warps=WARPS)
