"""style: configurations under triton.autotune, keyed by the length of a row"""

import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((1024, 4), (2048, 4), (4096, 8))],
    key=["cols"],
)
@triton.jit
def rmsnorm_rows(x, weight, eps, y, cols, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        value = tl.load(x + row * x_stride + at, mask=at < cols, other=0.0)
        total += value * value
    scale = tl.rsqrt(tl.sum(total, axis=0) / cols + eps)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        value = tl.load(x + row * x_stride + at, mask=at < cols, other=0.0)
        factor = tl.load(weight + at, mask=at < cols, other=0.0)
        tl.store(y + row * y_stride + at, value * scale * factor, mask=at < cols)


def run(x, weight, eps, y):
    rows, cols = x.shape
    rmsnorm_rows[(rows,)](x, weight, eps, y, cols, x.stride(0), y.stride(0))
