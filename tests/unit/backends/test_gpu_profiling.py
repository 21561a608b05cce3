"""Counters by ncu: its tables, its command line, what it is given to run, and every way of having none."""

from __future__ import annotations

import itertools
import json
import math
import os
import struct
import sys
from pathlib import Path

import pytest
from evokern_gpu import profiling, replayed
from evokern_gpu.bundle import bundle
from evokern_gpu.launches import Launch, Spot, call_key
from evokern_gpu.profiling import METRICS, OTHERWISE, SUMS, command, merged, parsed, plan, profile

from evokern.backend import Replay
from evokern.errors import Unavailable
from evokern.evaluator.call.protocol import Place, Spec
from evokern.statistics.roofline import COUNTERS

MOST_COUNTERS = 24

FRONT = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC"'
UNITS = ",".join(['""'] * 11)
KERNEL = '"{}","4242","python3.12","127.0.0.1","{}","1","13","(256, 1, 1)","(4096, 1, 1)","0","9.0"'


def table(names: list[str], units: list[str], *kernels: tuple[str, list[str]]) -> str:
    """A raw page as ncu writes it."""
    lines = ["==PROF== Connected to process 4242 (/usr/bin/python3.12)", "==PROF== Disconnected from process 4242"]
    lines.append(",".join([FRONT, *(f'"{name}"' for name in names)]))
    lines.append(",".join([UNITS, *(f'"{unit}"' for unit in units)]))
    for number, (name, values) in enumerate(kernels):
        lines.append(",".join([KERNEL.format(number, name), *(f'"{value}"' for value in values)]))
    return "\n".join(lines) + "\n"


TIME, READ, HITS = METRICS["time_ns"], METRICS["read_bytes"], METRICS["l2_hit_pct"]

TWO = table(
    [READ, TIME, HITS, "launch__registers_per_thread"],
    ["byte", "ns", "%", "register/thread"],
    ("softmax<float, 4>(const float *, float *, int)", ["134,217,728", "36,512", "12.50", "32"]),
    ("finish(float *)", ["1,024", "1,488", "n/a", "16"]),
)


def test_a_raw_page_becomes_numbers_by_our_names() -> None:
    first, second = parsed(TWO)
    assert first == {"read_bytes": 134217728.0, "time_ns": 36512.0, "l2_hit_pct": 12.5}
    assert second == {"read_bytes": 1024.0, "time_ns": 1488.0}


@pytest.mark.parametrize(
    ("unit", "text", "expected"), [("usecond", "36.5", 36500.0), ("us", "36.5", 36500.0), ("ms", "2", 2e6), ("nsecond", "9", 9.0)]
)
def test_a_time_is_told_in_nanoseconds_whatever_its_unit(unit: str, text: str, expected: float) -> None:
    assert parsed(table([TIME], [unit], ("k", [text]))) == [{"time_ns": expected}]


@pytest.mark.parametrize(
    ("unit", "text", "expected"), [("Mbyte", "134.2", 134.2e6), ("Kbyte", "2", 2e3), ("Gbyte", "1", 1e9), ("byte", "7", 7.0)]
)
def test_bytes_are_told_as_bytes(unit: str, text: str, expected: float) -> None:
    assert parsed(table([READ], [unit], ("k", [text]))) == [{"read_bytes": pytest.approx(expected)}]


def test_newer_names_of_metrics_are_known() -> None:
    newer = OTHERWISE[READ]
    assert parsed(table([newer], ["byte"], ("k", ["5"]))) == [{"read_bytes": 5.0}]


@pytest.mark.parametrize("text", ["", "==ERROR== The application returned an error code (1).\n", "nothing,here\n1,2\n", FRONT + "\n"])
def test_what_holds_no_kernel_is_no_table(text: str) -> None:
    with pytest.raises(ValueError, match=r"no table|no kernel"):
        parsed(text)


@pytest.mark.parametrize("text", ["nan", "inf", "-3", "n/a", "", "1.2.3", "(!) nan"])
def test_what_is_no_number_is_left_out(text: str) -> None:
    assert parsed(table([TIME, READ], ["ns", "byte"], ("k", ["5", text]))) == [{"time_ns": 5.0}]


def test_a_row_that_was_cut_off_is_no_kernel() -> None:
    assert len(parsed(TWO[: TWO.rindex(",")])) == 1


def test_counters_are_few_and_each_has_its_meaning() -> None:
    assert METRICS.keys() == COUNTERS.keys()
    assert len(METRICS) <= MOST_COUNTERS
    assert len(set(METRICS.values())) == len(METRICS)
    assert METRICS.keys() > SUMS
    assert set(METRICS.values()) > OTHERWISE.keys()


def test_of_several_kernels_counts_are_added_and_shares_are_means_over_time() -> None:
    found = merged([{"time_ns": 30.0, "read_bytes": 10.0, "dram_pct": 90.0}, {"time_ns": 10.0, "read_bytes": 5.0, "dram_pct": 10.0}])
    assert found == {"time_ns": 40.0, "read_bytes": 15.0, "dram_pct": pytest.approx(70.0)}
    assert merged([{"dram_pct": 3.0}]) == {"dram_pct": 3.0}


@pytest.mark.parametrize(("cold", "control"), [(True, "all"), (False, "none")])
def test_the_command_leaves_clocks_alone_and_empties_caches_where_they_are_cold(cold: bool, control: str) -> None:
    argv = command(Path("/opt/ncu"), [TIME, READ], Path("/t/log"), ["python3", "-m", "program"], launches=3, cold=cold)
    said = dict(itertools.pairwise(argv))
    assert (argv[0], argv[1], argv[-3:]) == ("/opt/ncu", "--csv", ["python3", "-m", "program"])
    assert said["--clock-control"] == "none"
    assert said["--cache-control"] == control
    assert said["--launch-count"] == "3"
    assert said["--metrics"] == f"{TIME},{READ}"
    assert (said["--page"], said["--print-units"], said["--log-file"]) == ("raw", "base", "/t/log")


# A sealed call, and programs that stand where ncu does: what is tried is how it is called, and what becomes of what it writes.

SHAPE = (8, 16)
PLACES = [Place(192, SHAPE, (16, 1)), Place(64, SHAPE, (16, 1)), Place(0, (), (), struct.pack("<d", 0.5))]
SPECS = [Spec(2, 32, 2, 0), Spec(2, 32, 2, 0), Spec(2, 64, 0, 0)]
CALL = Replay(SPECS, PLACES, [False, False, False], 256)


def sealed(launches: int = 2) -> bytes:
    one = Launch("k", (8, 1, 1), (32, 1, 1), 0, bytes(24), ((0, Spot(0, 0)), (8, Spot(1, 0))))
    return bundle([b"image"], {call_key(PLACES, 256): (one,) * launches}, instruments=b"ours", arguments=3)


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of a test's own in ncu's place."""
    program = tmp_path / "ncu"
    monkeypatch.setenv(profiling.SETTING, str(program))
    return program


def becomes(program: Path, body: str) -> None:
    program.write_text(f"#!{sys.executable}\nimport json, os, sys\nargv = sys.argv\nlog = argv[argv.index('--log-file') + 1]\n{body}\n")
    program.chmod(0o755)


def test_a_call_of_two_kernels_is_told_as_one(ncu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "table").write_text(TWO)
    monkeypatch.setenv("A_SECRET_OF_THE_JUDGE", "1")
    seen = tmp_path / "seen"
    becomes(
        ncu,
        f"open(log, 'w').write(open({str(tmp_path / 'table')!r}).read())\n"
        f"json.dump([argv, dict(os.environ), open(argv[-1]).read()], open({str(seen)!r}, 'w'))",
    )
    assert profile(sealed(), [CALL]) == [{"read_bytes": 134218752.0, "time_ns": 38000.0, "l2_hit_pct": pytest.approx(12.5)}]
    argv, environment, written = json.loads(seen.read_text())
    assert argv[-4:-2] == ["-m", "evokern_gpu.replayed"]
    assert "A_SECRET_OF_THE_JUDGE" not in environment
    assert environment["LC_ALL"] == "C"
    assert json.loads(written) == json.loads(json.dumps(plan([CALL], 0)))
    assert not Path(argv[-1]).exists()


def test_a_metric_that_is_not_known_is_asked_for_by_its_other_name_or_left_out(ncu: Path, tmp_path: Path) -> None:
    (tmp_path / "table").write_text(TWO)
    missing = (READ, METRICS["fma_pct"])
    becomes(
        ncu,
        "asked = argv[argv.index('--metrics') + 1].split(',')\n"
        f"unknown = [m for m in {missing!r} if m in asked]\n"
        f"open({str(tmp_path / 'calls')!r}, 'a').write(','.join(asked) + chr(10))\n"
        f"open(log, 'w').write(''.join(f'==ERROR== Failed to find metric {{m}}' + chr(10) for m in unknown) "
        f"or open({str(tmp_path / 'table')!r}).read())",
    )
    assert profile(sealed(), [CALL])[0]["time_ns"] == 38000.0
    _, second = (tmp_path / "calls").read_text().splitlines()
    assert OTHERWISE[READ] in second.split(",")
    assert not set(missing) & set(second.split(","))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("open(log, 'w').write('==ERROR== ERR_NVGPUCTRPERM - no permission')", "keeps its counters for administrators"),
        (
            "print('cannot be replayed: the device has no 5 bytes left')",
            "found nothing.*cannot be replayed: the device has no 5 bytes left",
        ),
        ("print('device error: cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)')", "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("open(log, 'w').write('==ERROR== Failed to prepare kernel for profiling')", "Failed to prepare kernel"),
        ("", "it said nothing"),
    ],
)
def test_counters_that_cannot_be_had_say_why(ncu: Path, body: str, words: str) -> None:
    becomes(ncu, body)
    with pytest.raises(Unavailable, match=words):
        profile(sealed(), [CALL])


def test_a_table_of_too_few_kernels_is_no_profile(ncu: Path, tmp_path: Path) -> None:
    (tmp_path / "table").write_text(TWO)
    becomes(ncu, f"open(log, 'w').write(open({str(tmp_path / 'table')!r}).read())")
    with pytest.raises(Unavailable, match="2 kernels where 3 were launched"):
        profile(sealed(3), [CALL])


def test_without_ncu_nothing_is_tried(ncu: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be run"):
        profile(sealed(), [CALL])


def test_a_machine_without_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(profiling.SETTING, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(profiling, "PLACES", ())
    with pytest.raises(Unavailable, match="ncu is not here") as caught:
        profiling.find()
    assert "Nsight Compute" in caught.value.mend


def test_a_call_that_launches_nothing_is_not_profiled(ncu: Path) -> None:
    becomes(ncu, "")
    with pytest.raises(Unavailable, match="no kernel"):
        profile(sealed(), [Replay(SPECS, PLACES, [False] * 3, 512)])


# The process that ncu looks at.


def test_a_plan_is_the_call_that_its_bundle_knows() -> None:
    (call,) = replayed.planned(json.loads(json.dumps(plan([CALL], 0))))
    assert call_key(call.places, call.workspace_bytes) == call_key(PLACES, 256)
    first, _, scalar = call.places
    assert (first.offset, first.window_bytes) == (192, 1024)
    assert (scalar.ndim, scalar.scalar) == (0, struct.pack("<d", 0.5))


def test_an_offset_is_kept_up_to_what_alignment_can_tell() -> None:
    far = Replay(SPECS[:1], [Place(8192 + 48, SHAPE, (20, 1))], [False], 0)
    (call,) = replayed.planned(json.loads(json.dumps(plan([far], 0))))
    assert call.places[0].offset == 48
    assert call.places[0].window_bytes == 1024
    assert call_key(call.places, 0) == call_key(far.places, 0)


@pytest.mark.parametrize(("code", "bits", "kind"), [(2, 32, "f"), (2, 16, "e"), (2, 64, "d")])
def test_values_are_normal_numbers(code: int, bits: int, kind: str) -> None:
    some = struct.unpack(f"<1000{kind}", replayed.values(code, bits)[: 1000 * bits // 8])
    assert all(map(math.isfinite, some))
    assert 0.9 < math.sqrt(sum(value * value for value in some) / len(some)) < 1.1


def test_bfloat16_is_the_upper_half_of_float32() -> None:
    wide, narrow = replayed.values(2, 32), replayed.values(4, 16)
    assert narrow[:2] == wide[2:4]
    assert len(narrow) == len(wide) // 2


@pytest.mark.parametrize(("code", "bits"), [(0, 64), (1, 8), (0, 32), (6, 8), (10, 8)])
def test_what_may_be_an_index_is_zero(code: int, bits: int) -> None:
    assert replayed.values(code, bits) == b""


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="a GPU is here")
def test_without_a_device_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bundle").write_bytes(sealed())
    (tmp_path / "plan").write_text(json.dumps(plan([CALL], 0)))
    assert replayed.main([str(tmp_path / "bundle"), str(tmp_path / "plan")]) == 1
    assert capsys.readouterr().out.startswith("cannot be replayed: ")
