from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from evokern_cpu import reading
from hypothesis import given
from hypothesis import strategies as st

from evokern.building import linkage

HEAD = "Dynamic section at offset 0x3d88 contains 27 entries:\n"
SYMBOL = "     5: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND execve@GLIBC_2.2.5 (2)\n"
LINES = st.lists(
    st.sampled_from([HEAD, SYMBOL, "  TLS            0x003d24 0x4d24 0x4d24 0x4 0x4 R   0x4\n", " 0x1 (NEEDED)", "\0", "\n"]) | st.text()
)


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        (SYMBOL, {"imports": "execve"}),
        ("     9: 0000000000000000     0 FUNC    WEAK   DEFAULT  UND maybe\n", {"imports": "maybe"}),
        (
            "     9: 0000000000000000     0 FUNC    GLOBAL DEFAULT [VARIANT_PCS]  UND _ZGVnN4v_expf@GLIBC_2.38 (3)\n",
            {"imports": "_ZGVnN4v_expf"},
        ),
        ("     6: 0000000000001110   438 FUNC    GLOBAL DEFAULT   12 UND execve\n", {}),
        (" 0x0000000000000001 (NEEDED)             Shared library: [libm.so.6]\n", {"needed": "libm.so.6"}),
        (" 0x0000000000000001 (NEEDED)             Shared library: [my lib.so]\n", {"needed": "my_lib.so"}),
        (" 0x000000000000001b (INIT_ARRAYSZ)       32 (bytes)\n", {"loads": "2"}),
        ("0000000000003e08  0000000000000025 R_X86_64_IRELATIV                         1120\n", {"loads": "1"}),
        (" 0x0000000000000016 (TEXTREL)            0x0\n", {"segments": "text_relocations"}),
        (" 0x000000000000001e (FLAGS)              TEXTREL BIND_NOW\n", {"segments": "text_relocations"}),
        ("  GNU_STACK      0x000000 0x0000000000000000 0x0000000000000000 0x000000 0x000000 RWE 0x10\n", {"segments": "executable_stack"}),
        ("  LOAD           0x001000 0x0000000000001000 0x0000000000001000 0x0001d1 0x0001d1 RWE 0x1000\n", {"segments": "writable_code"}),
        ("    28c5:\tsyscall\n", {"instructions": "syscall"}),
        ("    28c5:\tint    $0x80\n", {"instructions": "syscall"}),
        ("    28c5:\tint    $0x3\n", {}),
        ("    28c5:\tlock rdtscp\n", {"instructions": "clock"}),
        ("     7c0:\tsvc\t#0x0\n", {"instructions": "syscall"}),
        ("     7c4:\tmrs\tx0, cntvct_el0\n", {"instructions": "clock"}),
        ("    28c5:\tcall   2040 <syscall@plt>\n", {}),
    ],
)
def test_each_fact_has_its_line(line: str, facts: dict[str, str]) -> None:
    nothing = {"imports": "", "needed": "", "loads": "0", "segments": "", "instructions": ""}
    assert tuple(nothing) == linkage.FACTS
    assert linkage.from_headers(HEAD + line) == nothing | facts


@given(LINES)
def test_no_text_breaks_the_reader(lines: list[str]) -> None:
    found = reading.found("".join(lines))
    assert all(isinstance(value, str) for value in found.values())


@pytest.mark.skipif(not reading.able(), reason="needs binutils")
@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(200), b"no library at all"])
def test_what_is_no_library_has_no_facts(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "kernel.so").write_bytes(content)
    subprocess.run(["sh", "-c", reading.script("kernel.so", "printed")], cwd=tmp_path, check=False)
    assert "imports" not in reading.found((tmp_path / "printed").read_text())
