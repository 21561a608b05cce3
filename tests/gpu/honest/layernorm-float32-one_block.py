"""style: a row in one block of registers up to 16,384 columns, sweeps beyond"""

import triton
import triton.language as tl

LONGEST = 16384


@triton.jit
def in_one_block(x, weight, bias, eps, y, cols, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * x_stride + at, mask=at < cols, other=0.0)
    mean = tl.sum(value, axis=0) / cols
    apart = tl.where(at < cols, value - mean, 0.0)
    scale = tl.rsqrt(tl.sum(apart * apart, axis=0) / cols + eps)
    factor = tl.load(weight + at, mask=at < cols, other=0.0)
    offset = tl.load(bias + at, mask=at < cols, other=0.0)
    tl.store(y + row * y_stride + at, apart * scale * factor + offset, mask=at < cols)


@triton.jit
def in_sweeps(x, weight, bias, eps, y, cols, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    x += row * x_stride
    mean = 0.0
    for start in range(0, cols, BLOCK):
        at = start + lanes
        mean += tl.sum(tl.load(x + at, mask=at < cols, other=0.0), axis=0) / cols
    square = 0.0
    for start in range(0, cols, BLOCK):
        at = start + lanes
        apart = tl.where(at < cols, tl.load(x + at, mask=at < cols, other=0.0) - mean, 0.0)
        square += tl.sum(apart * apart, axis=0)
    scale = tl.rsqrt(square / cols + eps)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        apart = tl.load(x + at, mask=at < cols, other=0.0) - mean
        factor = tl.load(weight + at, mask=at < cols, other=0.0)
        tl.store(y + row * y_stride + at, apart * scale * factor + tl.load(bias + at, mask=at < cols, other=0.0), mask=at < cols)


def run(x, weight, bias, eps, y):
    rows, cols = x.shape
    if cols <= LONGEST:
        block = triton.next_power_of_2(cols)
        in_one_block[(rows,)](x, weight, bias, eps, y, cols, x.stride(0), y.stride(0), BLOCK=block, num_warps=4 if block <= 4096 else 16)
    else:
        in_sweeps[(rows,)](x, weight, bias, eps, y, cols, x.stride(0), y.stride(0), BLOCK=4096, num_warps=8)
