"""Causal attention: a program a block of queries of one head, blocks of keys combined online, as FlashAttention does (arXiv 2205.14135)."""

import triton
import triton.language as tl

QUERIES = 64  # tune: 32 64 128
KEYS = 64  # tune: 32 64 128
WARPS = 4  # tune: 4 8
STAGES = 2  # tune: 1 2 3


@triton.jit
def attend(
    q, k, v, o, seq, dim, scale, q_head, q_row, k_head, k_row, v_head, v_row, o_head, o_row, blocks,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    head = (tl.program_id(0) // blocks).to(tl.int64)
    first = tl.program_id(0) % blocks * QUERIES
    row = first + tl.arange(0, QUERIES)
    key = tl.arange(0, KEYS)
    lane = tl.arange(0, DIM)
    inside = lane < dim

    query = tl.load(q + head * q_head + row[:, None].to(tl.int64) * q_row + lane[None, :], mask=(row < seq)[:, None] & inside, other=0.0)
    k += head * k_head
    v += head * v_head
    peak = tl.full((QUERIES,), float("-inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    result = tl.zeros((QUERIES, DIM), tl.float32)
    for start in range(0, min(first + QUERIES, seq), KEYS):
        at = start + key
        here = (at < seq)[:, None] & inside
        keys = tl.load(k + at[:, None].to(tl.int64) * k_row + lane[None, :], mask=here, other=0.0)
        scores = tl.dot(query, tl.trans(keys)) * scale
        scores = tl.where(at[None, :] <= row[:, None], scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        weight = tl.exp(scores - higher[:, None])
        rescale = tl.exp(peak - higher)
        total = total * rescale + tl.sum(weight, axis=1)
        values = tl.load(v + at[:, None].to(tl.int64) * v_row + lane[None, :], mask=here, other=0.0)
        result = tl.dot(weight.to(values.dtype), values, result * rescale[:, None])
        peak = higher

    result = (result / total[:, None]).to(o.dtype.element_ty)
    tl.store(o + head * o_head + row[:, None].to(tl.int64) * o_row + lane[None, :], result, mask=(row < seq)[:, None] & inside)


def run(q, k, v, o):
    heads, seq, dim = q.shape
    blocks = triton.cdiv(seq, QUERIES)
    attend[(heads * blocks,)](
        q, k, v, o, seq, dim, dim**-0.5,
        q.stride(0), q.stride(1), k.stride(0), k.stride(1), v.stride(0), v.stride(1), o.stride(0), o.stride(1), blocks,
        QUERIES=QUERIES, KEYS=KEYS, DIM=triton.next_power_of_2(dim), num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
