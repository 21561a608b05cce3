"""style: parts of a row in the workspace, a second kernel with a program a row"""

import triton
import triton.language as tl

SPAN = 8192
MOST = 32


@triton.jit
def reduce_parts(logits, found, cols, parts, stride, SPAN: tl.constexpr):
    row = (tl.program_id(0) // parts).to(tl.int64)
    at = tl.program_id(0) % parts * SPAN + tl.arange(0, SPAN)
    found = found.to(tl.pointer_type(tl.float32)) + 2 * tl.program_id(0)
    value = tl.load(logits + row * stride + at, mask=at < cols, other=float("-inf"))
    peak = tl.max(value, axis=0)
    tl.store(found, peak)
    tl.store(found + 1, tl.sum(tl.exp(value - tl.where(peak == float("-inf"), 0.0, peak)), axis=0))


@triton.jit
def join_parts(logits, labels, loss, found, parts, stride, MOST: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    found = found.to(tl.pointer_type(tl.float32)) + 2 * row * parts
    at = tl.arange(0, MOST)
    peaks = tl.full((MOST,), float("-inf"), tl.float32)
    totals = tl.zeros((MOST,), tl.float32)
    for start in range(0, parts, MOST):
        here = start + at < parts
        others = tl.load(found + 2 * (start + at), mask=here, other=float("-inf"))
        higher = tl.maximum(peaks, others)
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        totals = totals * tl.exp(peaks - shift) + tl.load(found + 2 * (start + at) + 1, mask=here, other=0.0) * tl.exp(others - shift)
        peaks = higher
    peak = tl.max(peaks, axis=0)
    chosen = tl.load(logits + row * stride + tl.load(labels + row))
    tl.store(loss + row, tl.log(tl.sum(totals * tl.exp(peaks - peak), axis=0)) + peak - chosen)


def workspace_size(shapes):
    rows, cols = shapes[0]
    return rows * triton.cdiv(cols, SPAN) * 8


def run(logits, labels, loss, workspace):
    rows, cols = logits.shape
    parts = triton.cdiv(cols, SPAN)
    reduce_parts[(rows * parts,)](logits, workspace, cols, parts, logits.stride(0), SPAN=SPAN, num_warps=8)
    join_parts[(rows,)](logits, labels, loss, workspace, parts, logits.stride(0), MOST=MOST, num_warps=1)
