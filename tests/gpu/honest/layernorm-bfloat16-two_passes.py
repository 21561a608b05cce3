"""style: mean, then squared distances, then the result: three sweeps of blocks"""

import triton
import triton.language as tl

BLOCK = 2048


@triton.jit
def layernorm_rows(x, weight, bias, eps, y, cols, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    x += row * x_stride
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        total += tl.load(x + at, mask=at < cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / cols
    square = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        apart = tl.where(at < cols, tl.load(x + at, mask=at < cols, other=0.0).to(tl.float32) - mean, 0.0)
        square += apart * apart
    scale = tl.rsqrt(tl.sum(square, axis=0) / cols + eps)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        apart = tl.load(x + at, mask=at < cols, other=0.0).to(tl.float32) - mean
        factor = tl.load(weight + at, mask=at < cols, other=0.0).to(tl.float32)
        offset = tl.load(bias + at, mask=at < cols, other=0.0).to(tl.float32)
        tl.store(y + row * y_stride + at, (apart * scale * factor + offset).to(y.dtype.element_ty), mask=at < cols)


def run(x, weight, bias, eps, y):
    rows, cols = x.shape
    layernorm_rows[(rows,)](x, weight, bias, eps, y, cols, x.stride(0), y.stride(0), BLOCK=BLOCK, num_warps=8)
