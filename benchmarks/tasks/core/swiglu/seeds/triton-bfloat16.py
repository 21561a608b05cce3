"""silu(gate) * up: a program a block of a row."""

import triton
import triton.language as tl

BLOCK = 2048  # tune: 256 512 1024 2048 4096
WARPS = 4  # tune: 1 2 4 8 16


@triton.jit
def swiglu_blocks(gate, up, y, cols, gate_stride, up_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(gate + row * gate_stride + at, mask=at < cols, other=0.0).to(tl.float32)
    right = tl.load(up + row * up_stride + at, mask=at < cols, other=0.0).to(tl.float32)
    tl.store(y + row * y_stride + at, left * tl.sigmoid(left) * right, mask=at < cols)


def run(gate, up, y):
    rows, cols = gate.shape
    grid = (rows, triton.cdiv(cols, BLOCK))
    swiglu_blocks[grid](gate, up, y, cols, gate.stride(0), up.stride(0), y.stride(0), BLOCK=BLOCK, num_warps=WARPS)
