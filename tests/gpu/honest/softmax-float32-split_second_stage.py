"""style: parts of a row in the workspace, a second kernel that joins them and normalises"""

import triton
import triton.language as tl

SPAN = 4096


@triton.jit
def reduce_parts(x, found, cols, parts, x_stride, SPAN: tl.constexpr):
    row = (tl.program_id(0) // parts).to(tl.int64)
    at = tl.program_id(0) % parts * SPAN + tl.arange(0, SPAN)
    found = found.to(tl.pointer_type(tl.float32)) + 2 * tl.program_id(0)
    value = tl.load(x + row * x_stride + at, mask=at < cols, other=float("-inf"))
    peak = tl.max(value, axis=0)
    shift = tl.where(peak == float("-inf"), 0.0, peak)
    tl.store(found, peak)
    tl.store(found + 1, tl.sum(tl.exp(value - shift), axis=0))


@triton.jit
def normalise(x, y, found, cols, parts, x_stride, y_stride, SPAN: tl.constexpr):
    row = (tl.program_id(0) // parts).to(tl.int64)
    at = tl.program_id(0) % parts * SPAN + tl.arange(0, SPAN)
    found = found.to(tl.pointer_type(tl.float32)) + 2 * row * parts
    peak = float("-inf")
    for part in range(0, parts):
        peak = tl.maximum(peak, tl.load(found + 2 * part))
    total = 0.0
    for part in range(0, parts):
        total += tl.load(found + 2 * part + 1) * tl.exp(tl.load(found + 2 * part) - peak)
    value = tl.load(x + row * x_stride + at, mask=at < cols, other=float("-inf"))
    tl.store(y + row * y_stride + at, tl.exp(value - peak) / total, mask=at < cols)


def workspace_size(shapes):
    rows, cols = shapes[0]
    return rows * triton.cdiv(cols, SPAN) * 8


def run(x, y, workspace):
    rows, cols = x.shape
    parts = triton.cdiv(cols, SPAN)
    reduce_parts[(rows * parts,)](x, workspace, cols, parts, x.stride(0), SPAN=SPAN, num_warps=8)
    normalise[(rows * parts,)](x, y, workspace, cols, parts, x.stride(0), y.stride(0), SPAN=SPAN, num_warps=8)
