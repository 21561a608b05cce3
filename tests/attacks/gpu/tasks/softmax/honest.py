import triton
import triton.language as tl


@triton.jit
def softmax_rows(x, y, cols, x_stride, y_stride, BLOCK: tl.constexpr):
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


def honest(x, y):
    rows, cols = x.shape
    softmax_rows[(rows,)](x, y, cols, x.stride(0), y.stride(0), BLOCK=1024)
