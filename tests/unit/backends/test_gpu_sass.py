"""What is read of a cubin's listing."""

from __future__ import annotations

import pytest
from evokern_gpu.sass import UNITS, from_listing
from hypothesis import given
from hypothesis import strategies as st

# As nvdisasm prints code for sm_90.
HEAD = """
//--------------------- .text._Z4softPKfPfi       --------------------------
\t.section\t.text._Z4softPKfPfi,"ax",@progbits
_Z4softPKfPfi:
.text._Z4softPKfPfi:
"""


def listing(*instructions: str) -> str:
    lines = (f"        /*{16 * number:04x}*/              {text} ;" for number, text in enumerate(instructions))
    return HEAD + "\n".join(lines) + "\n.L_x_0:\n"


def test_a_listing_without_instructions_tells_nothing() -> None:
    assert from_listing("") == {}
    assert from_listing(HEAD + "\t.byte\t0x04, 0x2f\n") == {}


def test_share_of_wide_accesses() -> None:
    traits = from_listing(
        listing("LDG.E.128 R4, desc[UR6][R2.64]", "@P0 LDG.E R0, desc[UR6][R2.64]", "@!P1 STG.E.128 desc[UR6][R2.64], R4", "EXIT")
    )
    assert (traits["wide_share"], traits["wide"]) == ("0.67", "most")
    assert from_listing(listing("LDG.E.U16 R0, desc[UR6][R2.64]"))["wide"] == "none"
    assert "wide" not in from_listing(listing("LDS.128 R0, [R1]", "EXIT"))


@pytest.mark.parametrize(
    ("instruction", "unit"),
    [
        ("HMMA.16816.F32 R4, R8, R12, R4", "tensor"),
        ("HGMMA.64x128x16.F32 R24, gdesc[UR4]", "tensor"),
        ("UTCHMMA gdesc[UR4], gdesc[UR6]", "tensor"),
        ("UBLKCP [UR4], [UR6], UR8", "bulk"),
        ("UTMALDG.2D [UR8], [UR4]", "bulk"),
        ("LDGSTS.E.BYPASS.128 [R4], desc[UR4][R2.64]", "async"),
        ("MUFU.EX2 R0, R0", "special"),
        ("SHFL.BFLY PT, R5, R4, 0x10, 0x1f", "shuffle"),
        ("STS [R4], R5", "shared"),
        ("ATOMG.E.ADD.STRONG.GPU PT, R2, desc[UR4][R2.64], R5", "atomic"),
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R5", "atomic"),
        ("DFMA R2, R2, R4, R6", "double"),
        ("STL [R1], R4", "local"),
        ("FFMA R0, R1, R2, R3", "plain"),
        ("REDUX.SUM UR4, R4", "shuffle"),
    ],
)
def test_units(instruction: str, unit: str) -> None:
    assert from_listing(listing(instruction, "EXIT"))["units"] == unit


def test_units_come_in_one_order() -> None:
    assert from_listing(listing("SHFL.BFLY PT, R5", "MUFU.EX2 R0, R0", "LDS R0, [R1]"))["units"] == "special shuffle shared"
    assert set(UNITS) >= {"special", "shuffle", "shared"}


@given(st.text() | st.lists(st.sampled_from(listing("LDG.E.128 R4", "EXIT").splitlines()) | st.text()).map("\n".join))
def test_no_listing_stops_the_reader(text: str) -> None:
    assert all(isinstance(value, str) for value in from_listing(text).values())
