"""style: a row in one block of registers up to 16,384 columns, an online loop beyond"""

import triton
import triton.language as tl

LONGEST = 16384


@triton.jit
def in_one_block(x, y, cols, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * x_stride + at, mask=at < cols, other=float("-inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + row * y_stride + at, power / tl.sum(power, axis=0), mask=at < cols)


@triton.jit
def in_a_loop(x, y, cols, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * x_stride
    y += row * y_stride
    lanes = tl.arange(0, BLOCK)
    peak = float("-inf")
    for start in range(0, cols, BLOCK):
        at = start + lanes
        peak = tl.maximum(peak, tl.max(tl.load(x + at, mask=at < cols, other=float("-inf")).to(tl.float32), axis=0))
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + lanes
        total += tl.sum(tl.exp(tl.load(x + at, mask=at < cols, other=float("-inf")).to(tl.float32) - peak), axis=0)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        value = tl.load(x + at, mask=at < cols, other=float("-inf")).to(tl.float32)
        tl.store(y + at, tl.exp(value - peak) / total, mask=at < cols)


def run(x, y):
    rows, cols = x.shape
    if cols <= LONGEST:
        block = triton.next_power_of_2(cols)
        warps = 4 if block <= 2048 else 8 if block <= 8192 else 16
        in_one_block[(rows,)](x, y, cols, x.stride(0), y.stride(0), BLOCK=block, num_warps=warps)
    else:
        in_a_loop[(rows,)](x, y, cols, x.stride(0), y.stride(0), BLOCK=8192, num_warps=16)
