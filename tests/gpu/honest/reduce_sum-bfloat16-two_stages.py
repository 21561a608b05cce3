"""style: partial sums in the workspace and a second kernel"""

import triton
import triton.language as tl

SPAN = 8192
BLOCK = 64


@triton.jit
def sum_parts(x, found, cols, parts, x_stride, SPAN: tl.constexpr):
    row = (tl.program_id(0) // parts).to(tl.int64)
    at = tl.program_id(0) % parts * SPAN + tl.arange(0, SPAN)
    value = tl.load(x + row * x_stride + at, mask=at < cols, other=0.0).to(tl.float32)
    tl.store(found.to(tl.pointer_type(tl.float32)) + tl.program_id(0), tl.sum(value, axis=0))


@triton.jit
def sum_found(found, y, parts, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    found = found.to(tl.pointer_type(tl.float32)) + row * parts
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, parts, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(found + at, mask=at < parts, other=0.0)
    tl.store(y + row, tl.sum(total, axis=0).to(y.dtype.element_ty))


def workspace_size(shapes):
    rows, cols = shapes[0]
    return rows * triton.cdiv(cols, SPAN) * 4


def run(x, y, workspace):
    rows, cols = x.shape
    parts = triton.cdiv(cols, SPAN)
    sum_parts[(rows * parts,)](x, workspace, cols, parts, x.stride(0), SPAN=SPAN, num_warps=8)
    sum_found[(rows,)](workspace, y, parts, BLOCK=BLOCK, num_warps=1)
