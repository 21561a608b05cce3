"""Screening on libraries that the real compiler built and the real readers read."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from evokern_cpu import compiler, reading
from hypothesis import given
from hypothesis import strategies as st

import evokern
from evokern.backend import Built
from evokern.building import linkage
from evokern.evaluation import Evidence, Fingerprint, Reason, Rung, Tier, Verdict
from evokern.evaluator import screen
from evokern.evaluator.ladder import Ladder
from evokern.kernel import Kernel
from evokern.task import DType

INCLUDE = Path(evokern.__file__).parent / "include"
SEEDS = Path(evokern.__file__).parents[1] / "benchmarks" / "tasks" / "core"
RUN = 'extern "C" int run(void*, int, void*, unsigned long, void*) { BODY; return 0; }\n'

FINGERPRINT = Fingerprint("e", "cpu", "CPU", "6", "g++", "-O3", "torch", "ieee", 1, Tier.ISOLATED, "", ("eager",), 0)


class Started(Exception):
    """A runner would have been started."""


class Stub:
    """Stands for what the screen must not use."""

    def __init__(self, digest: str = "") -> None:
        self.digest = digest

    def derive(self, *_: object) -> Stub:
        return self


def never(*_: object) -> NoReturn:
    raise Started


Read = Callable[[str], dict[str, str]]
Screened = Callable[..., tuple[Evidence, ...]]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    if not reading.able():
        pytest.skip("needs binutils")

    def built(source: str) -> dict[str, str]:
        folder = tmp_path_factory.mktemp("library")
        (folder / "kernel.cpp").write_text(source)
        command = [compiler.find().path, "-std=c++17", "-O2", "-fPIC", "-shared", "-w", f"-I{INCLUDE}", "-o", "kernel.so", "kernel.cpp"]
        subprocess.run(command, cwd=folder, check=True)
        subprocess.run(["sh", "-c", reading.script("kernel.so", "printed")], cwd=folder, check=True)
        return reading.found((folder / "printed").read_text())

    return built


@pytest.fixture(scope="module")
def screened(read: Read) -> Screened:
    def look(body: str, before: str = "", seeds: tuple[Kernel, ...] = ()) -> tuple[Evidence, ...]:
        source = before + RUN.replace("BODY", body)
        return screen.evidence(Kernel("cpp", source), read(source), seeds)

    return look


def codes(evidence: tuple[Evidence, ...]) -> set[str]:
    return {piece.code for piece in evidence}


@pytest.mark.parametrize("task", ["softmax", "cross_entropy"])
def test_an_honest_kernel_gives_no_evidence_but_that_it_is_the_seed(read: Read, task: str) -> None:
    seed = Kernel("cpp", (SEEDS / task / "seeds" / "cpp-float32.cpp").read_text())
    facts = read(seed.source)
    assert screen.evidence(seed, facts) == ()
    assert codes(screen.evidence(seed, facts, screen.seeds_of(SEEDS / task))) == {"copied"}


def test_renaming_and_reformatting_make_no_other_kernel_and_another_algorithm_does() -> None:
    seed = Kernel("cpp", (SEEDS / "softmax" / "seeds" / "cpp-float32.cpp").read_text())
    disguised = Kernel("cpp", "// mine\n" + seed.source.replace("row", "line_of_it").replace(";", " ;\n"))
    other = Kernel("cpp", (SEEDS / "cross_entropy" / "seeds" / "cpp-float32.cpp").read_text())
    assert "copied" in codes(screen.evidence(disguised, {}, [seed]))
    assert "copied" not in codes(screen.evidence(other, {}, [seed]))


def test_a_library_that_is_pasted_is_named() -> None:
    pasted = Kernel(
        "cpp", "// torch::Tensor is not used\nEigen::Map<int> m;\nstatic void ggml_vec_scale_f32(int n, float* y, float v) {}\n"
    )
    (piece, *_) = screen.evidence(pasted, {"imports": ""})
    assert (piece.code, piece.detail) == ("vendored", "calls or holds Eigen::, ggml_: somebody else's mathematics")


def test_macros_and_aliases_hide_no_symbol(screened: Screened) -> None:
    evidence = screened(
        'GO(tem)("ls"); other("x")',
        before='#include <cstdlib>\n#define GO(x) sys##x\nextern "C" int other(const char*) __asm__("execlp");\n',
    )
    assert codes(evidence) == {screen.FORBIDDEN}
    assert "execlp, system" in screen.refusal(evidence)


def test_a_name_in_a_comment_or_of_ones_own_is_no_symbol(screened: Screened) -> None:
    evidence = screened('(void)"execve"; connect()', before="// execve socket\nstatic int connect() { return 1; }\n")
    assert evidence == ()


def test_hard_evidence_is_a_refusal_with_its_line_and_soft_evidence_is_none(screened: Screened) -> None:
    hard = screened("socket(1, 2, 3)", before="#include <sys/socket.h>\n")
    assert screen.refusal(hard) == "asks for socket, which no kernel needs and no sandbox gives (line 2)"
    soft = screened("fork(); getpid(); write(3, 0, 0)", before="#include <unistd.h>\n")
    assert codes(soft) == {"process", "identity", "descriptor"}
    assert screen.refusal(soft) == ""
    assert screen.weight(soft) == 14


def test_the_c_library_and_that_of_cpp_are_seen_alike(screened: Screened) -> None:
    headers = "".join(f"#include <{name}>\n" for name in ("chrono", "fstream", "thread", "time.h"))
    evidence = screened("std::ofstream f; std::thread([] {}).detach(); volatile auto n = std::chrono::steady_clock::now()", headers)
    assert codes(evidence) >= {"file", "threads", "detached", "clock"}
    details = " ".join(piece.detail for piece in evidence)
    assert "std::chrono" in details
    assert "_ZN" not in details
    assert codes(screened("time_t t; time(&t)", headers)) >= {"clock"}


def test_what_runs_at_load_is_counted_without_what_the_compiler_adds(read: Read) -> None:
    plain = RUN.replace("BODY", "")
    assert read(plain)["loads"] == "0"
    early = '__attribute__((constructor)) static void a() { __asm__(""); }\n__attribute__((destructor)) static void b() { __asm__(""); }\n'
    assert read(early + plain)["loads"] == "2"


@pytest.mark.skipif(compiler.find().is_clang, reason="another assembler's words")
def test_instructions_in_any_section_and_segments_are_seen(read: Read) -> None:
    import platform

    if platform.machine() != "x86_64":
        pytest.skip("x86 instructions")
    hidden = (
        '__attribute__((section("aside"))) long f() { long r; asm volatile("syscall" : "=a"(r) : "a"(39) : "rcx", "r11"); return r; }\n'
    )
    facts = read(hidden + "thread_local int kept = 1;\n" + RUN.replace("BODY", "__builtin_ia32_rdtsc(); f(); ++kept"))
    assert facts["instructions"] == "clock syscall"
    assert "thread_local" in facts["segments"]
    stack = read('asm(".section .note.GNU-stack,\\"x\\",@progbits\\n.text");\n' + RUN.replace("BODY", ""))
    assert screen.evidence(Kernel("cpp", RUN), stack)[0].detail == "can make or change code as it runs: an executable stack"


@pytest.mark.parametrize(
    ("symbol", "code"),
    [
        ("cblas_sgemm", "vendored"), ("sgemm_", "vendored"), ("mkl_free_buffers", "vendored"), ("_ZN2at4_ops3mul4callEv", "vendored"),
        ("PyRun_SimpleString", "interpreter"), ("_PyObject_New", "interpreter"), ("dlsym", "lookup"), ("syscall", "syscall"),
        ("__isoc23_fopen", "file"), ("__printf_chk", "prints"), ("__read_chk", "descriptor"), ("expf", ""), ("memcpy", ""),
        ("pytest", ""), ("GOMP_parallel", "threads"), ("_ZGVdN8v_expf", ""), ("aligned_alloc", ""), ("omp_get_max_threads", ""),
    ],
)  # fmt: skip
def test_imports_are_classed(symbol: str, code: str) -> None:
    found = screen.evidence(Kernel("cpp", ""), {"imports": symbol})
    assert codes(found) == ({code} if code else set())


def test_unusual_libraries_are_named_and_usual_ones_are_not() -> None:
    needed = "libc.so.6 libm.so.6 libmvec.so.1 libstdc++.so.6 libgcc_s.so.1 libgomp.so.1 ld-linux-x86-64.so.2 libopenblas.so.0"
    (piece,) = screen.evidence(Kernel("cpp", ""), {"imports": "", "needed": needed})
    assert (piece.code, piece.detail) == ("library", "needs a library that no kernel is expected to: libopenblas.so.0")


def test_a_library_that_was_not_read_is_said_so() -> None:
    assert codes(screen.evidence(Kernel("cpp", ""), {"passes": "2"})) == {"unread"}
    assert linkage.from_headers("readelf: Error: not an ELF file") == {}


def test_a_library_cannot_write_on_the_auditors_terminal() -> None:
    (piece,) = screen.evidence(Kernel("cpp", ""), {"imports": "", "needed": "lib\x1b[2J\u202e.so"})
    assert piece.detail.isprintable()


@given(
    st.text(st.characters(exclude_categories=())),
    st.sampled_from(["cpp", "triton"]),
    st.dictionaries(st.sampled_from(linkage.FACTS), st.text(st.characters(exclude_categories=()))),
)
def test_no_source_and_no_library_break_the_screen(source: str, dialect: str, facts: dict[str, str]) -> None:
    seed = Kernel(dialect, source[: len(source) // 2])
    evidence = screen.evidence(Kernel(dialect, source), facts, [seed])
    assert all(piece.detail.isprintable() and piece.code in screen.KINDS for piece in evidence)


def test_kinds_are_ordered_by_weight_and_every_symbol_has_one_kind() -> None:
    weights = [kind.weight for kind in screen.KINDS.values()]
    assert weights == sorted(weights, reverse=True)
    names = [name for kind in screen.KINDS.values() for name in kind.names.split()]
    assert len(names) == len(set(names))


def test_a_forbidden_import_ends_the_ladder_before_anything_runs_and_other_evidence_does_not() -> None:
    ladder = Ladder(
        task=Stub(digest="d" * 64), dtype=DType.FLOAT32, fingerprint=FINGERPRINT, secret=Stub(), shelf=None, clock=None, baselines=None,
        times={}, held_out=(), build=never, contestant=never, describe=lambda kernel, built: {"imports": kernel.source},
    )  # type: ignore[arg-type]  # fmt: skip
    built = Built(True, Path("kernel.so"))

    evaluation = ladder.judge(Kernel("cpp", "expf socket getpid"), built, None)

    assert (evaluation.verdict, evaluation.reason, evaluation.rung) == (Verdict.SCREENED, Reason.FORBIDDEN_SYMBOL, Rung.BUILD)
    assert evaluation.detail == "asks for socket, which no kernel needs and no sandbox gives (line 1)"
    assert [piece.code for piece in evaluation.evidence] == ["forbidden", "identity"]
    with pytest.raises(Started):
        ladder.judge(Kernel("cpp", "expf getpid"), built, None)
