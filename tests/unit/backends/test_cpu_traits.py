from __future__ import annotations

import pytest
from evokern_cpu import traits

WIDE = """
0000000000001100 <run>:
    1100:	push   %rbp
    1104:	vmovups (%rdi),%ymm0
    1108:	vfmadd231ps (%rsi),%ymm1,%ymm0
    110c:	vaddps %ymm0,%ymm2,%ymm2
    1110:	vaddss %xmm0,%xmm2,%xmm2
    1114:	vmovntps %ymm2,(%rdx)
    1118:	ret
"""
NARROW = """
    1104:	movaps %xmm0,%xmm1
    1108:	mulps  %xmm1,%xmm0
    110c:	addps  %xmm0,%xmm2
"""
SCALAR = """
    1104:	vmulss %xmm1,%xmm0,%xmm0
    1108:	bnd call 1050 <expf@plt>
    110c:	vaddsd %xmm0,%xmm2,%xmm2
"""
VECTOR_MATH = """
    1104:	vaddps %ymm0,%ymm2,%ymm2
    1108:	call   1050 <_ZGVdN8v_expf@plt>
"""
ARM_WIDE_AND_NARROW = """
    1104:	fadd	v0.4s, v1.4s, v2.4s
    1108:	fmla	v0.4s, v1.4s, v2.4s
    110c:	bl	5d0 <memcpy@plt>
"""


@pytest.mark.parametrize(
    "listing, expected",
    [
        (WIDE, {"simd": "wide", "libm": "no", "nt_stores": "yes"}),
        (NARROW, {"simd": "narrow", "libm": "no", "nt_stores": "no"}),
        (SCALAR, {"simd": "none", "libm": "scalar", "nt_stores": "no"}),
        (VECTOR_MATH, {"simd": "wide", "libm": "vector", "nt_stores": "no"}),
        (SCALAR + VECTOR_MATH, {"simd": "wide", "libm": "scalar", "nt_stores": "no"}),
        (ARM_WIDE_AND_NARROW, {"simd": "narrow", "libm": "no", "nt_stores": "no"}),
        ("no instruction here", {}),
    ],
)
def test_from_disassembly(listing: str, expected: dict[str, str]) -> None:
    assert traits.from_disassembly(listing) == expected


def test_a_few_vector_instructions_do_not_make_a_vectorised_kernel() -> None:
    scalar = "    1104:\tvmulss %xmm1,%xmm0,%xmm0\n"
    assert traits.from_disassembly(WIDE + scalar * 100)["simd"] == "none"


def body(text: str) -> str:
    return f"void f(const float* in, float* out, long n) {{ {text} }}"


@pytest.mark.parametrize(
    "text, passes",
    [
        ("out[0] = in[0];", "0"),
        ("for (long i = 0; i < n; ++i) out[i] = in[i];", "1"),
        ("for (long r = 0; r < n; ++r) { for (long i = 0; i < n; ++i) out[i] = in[i]; for (long i = 0; i < n; ++i) out[i] *= 2; }", "2"),
        ("long i = 0; for (; i + 8 <= n; i += 8) out[i] = in[i]; for (; i < n; ++i) out[i] = in[i];", "0"),
        ("for (long i = 0; i + 8 <= n; i += 8) { for (int l = 0; l < 8; ++l) out[i + l] = in[i + l]; }", "1"),
        ("long i; for (i = 0; i + 8 <= n; i += 8) out[i] = in[i]; for (; i < n; ++i) out[i] = in[i];", "1"),
        ("while (n--) *out++ = *in++;", "1"),
        ("for (long i = 0; i < n; ++i) out[i] = 0; " * 4, "3+"),
    ],
)
def test_passes(text: str, passes: str) -> None:
    assert traits.from_source(body(text)) == {"passes": passes}
