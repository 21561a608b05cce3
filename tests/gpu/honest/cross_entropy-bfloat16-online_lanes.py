"""style: a running maximum and sum in every lane, joined at the end"""

import triton
import triton.language as tl

BLOCK = 2048


@triton.jit
def cross_entropy_rows(logits, labels, loss, cols, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    lanes = tl.arange(0, BLOCK)
    chosen = tl.load(logits + tl.load(labels + row)).to(tl.float32)
    peaks = tl.full((BLOCK,), float("-inf"), tl.float32)
    totals = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + lanes
        value = tl.load(logits + at, mask=at < cols, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(peaks, value)
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        totals = totals * tl.exp(peaks - shift) + tl.exp(value - shift)
        peaks = higher
    peak = tl.max(peaks, axis=0)
    total = tl.sum(totals * tl.exp(peaks - peak), axis=0)
    tl.store(loss + row, (tl.log(total) + peak - chosen).to(loss.dtype.element_ty))


def run(logits, labels, loss):
    rows, cols = logits.shape
    cross_entropy_rows[(rows,)](logits, labels, loss, cols, logits.stride(0), BLOCK=BLOCK, num_warps=8)
