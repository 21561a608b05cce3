"""Cross-entropy of logits against class labels: log(sum(exp(logits))) - logits[label], a program a row, its blocks combined online."""

import triton
import triton.language as tl

BLOCK = 2048  # tune: 512 1024 2048 4096 8192
WARPS = 4  # tune: 1 2 4 8 16


@triton.jit
def cross_entropy_rows(logits, labels, loss, cols, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    lanes = tl.arange(0, BLOCK)

    peak = float("-inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + lanes
        value = tl.load(logits + at, mask=at < cols, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(peak, tl.max(value, axis=0))
        # A block of nothing but minus infinities adds nothing, and leaves no difference of infinities behind.
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(peak - shift) + tl.sum(tl.exp(value - shift), axis=0)
        peak = higher

    chosen = tl.load(logits + tl.load(labels + row)).to(tl.float32)
    tl.store(loss + row, tl.log(total) + peak - chosen)


def run(logits, labels, loss):
    rows, cols = logits.shape
    cross_entropy_rows[(rows,)](logits, labels, loss, cols, logits.stride(0), BLOCK=BLOCK, num_warps=WARPS)
