"""Every motif on every seed, and on what other motifs made of it, stays right: compiled with g++ and called."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from evokern.operators.rewrites import load_motifs
from evokern.operators.rewrites.motif import HELPERS
from evokern.syntax import tunables_of, with_values

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

_PATH = Path(__file__).with_name("motif_trial.py")
_SPEC = importlib.util.spec_from_file_location("motif_trial", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
trial = importlib.util.module_from_spec(_SPEC)
sys.modules["motif_trial"] = trial
_SPEC.loader.exec_module(trial)

CHAINS = {
    "softmax": "keep_values reciprocal polynomial_exp float_tiles exp_down simd_max prefetch scratch_and_stream accumulator_lanes",
    "rmsnorm": "float_tiles reciprocal streaming_stores prefetch accumulator_lanes",
    "cross_entropy": "polynomial_exp float_tiles exp_down simd_max prefetch accumulator_lanes",
    "bias_gelu": "tanh_to_logistic polynomial_exp fuse_loops streaming_stores",
}
"""Sequences of motifs that lead from a naive seed to a kernel faster than PyTorch's."""

COMPOSITIONS = 24
"""Two-step compositions tried for each task."""

FLAGGED = "cross_entropy"
"""The task on which the compiler flags are tried; each takes a compiler run of its own."""


def variants(source: str, *, flags: bool = True) -> list[tuple[str, str]]:
    return [(v.label, v.source) for m in load_motifs() if flags or m.name != "flags" for v in m.variants(source)]


def chained(task: str) -> list[tuple[str, str]]:
    """The source after each motif of the task's chain."""
    motifs = {m.name: m for m in load_motifs()}
    source, found = trial.seed(task), []
    for name in CHAINS[task].split():
        offered = motifs[name].variants(source)
        assert offered, f"{name} no longer applies after {[label for label, _ in found]}"
        source = offered[0].source
        found.append((f"chain to {name}", source))
    return found


def population(task: str) -> dict[str, str]:
    """Sources by a label: the seed, every single rewrite, evenly spaced compositions of two, the chain, and its tunables' ends."""
    seed = trial.seed(task)
    singles = variants(seed, flags=task == FLAGGED)
    doubles = [(f"{a} > {b}", y) for a, x in singles if not a.startswith("flags") for b, y in variants(x, flags=False)]
    doubles = doubles[:: max(1, len(doubles) // COMPOSITIONS)]
    chain = chained(task)
    last = chain[-1][1]
    extremes = [
        (f"{t.name}={value}", with_values(last, "cpp", {t.name: value}))
        for t in tunables_of(last, "cpp")
        for value in (t.allowed[0], t.allowed[-1])
        if not t.name.startswith("TILE") and value != t.value
    ]
    found: dict[str, str] = {}
    for label, source in [("seed", seed), *singles, *doubles, *chain, *extremes]:
        found.setdefault(source, label)
    return {label: source for source, label in found.items()}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("task", trial.TASKS)
def test_rewritten_kernels_are_right(task: str, tmp_path: Path) -> None:
    sources = population(task)
    made = trial.cases(task)
    runs = trial.build(list(sources.values()), tmp_path)
    faults = {label: found for label, run in zip(sources, runs, strict=True) if (found := trial.faults(run, made))}
    assert not faults
    assert len(sources) > COMPOSITIONS


def test_the_trial_finds_faults(tmp_path: Path) -> None:
    """What the test above relies on: wrong, rough, biased and overrunning kernels fail."""
    seed = trial.seed("softmax")
    broken = {
        "no maximum": seed.replace("in[col] - peak", "in[col]"),
        "drops the last column": seed.replace("col < cols; ++col) {\n      total", "col < cols - 1; ++col) {\n      total"),
        "biased": seed.replace("/ total", "/ (total * 1.0000001)"),
        "rough": seed.replace("double total", "float total"),
        "overruns": seed.replace("  return 0;", "  if (rows > 1) y[cols + y_stride * (rows - 1)] = 0;\n  return 0;"),
        "refuses": seed.replace("nargs != 2", "nargs == 2"),
    }
    assert all(source != seed for source in broken.values())
    made = trial.cases("softmax")
    for label, run in zip(broken, trial.build(list(broken.values()), tmp_path), strict=True):
        assert trial.faults(run, made), label


CALLS = """
#include <stdint.h>
{helpers}
extern "C" void apply_exp(const float* x, float* y, int64_t n) {{ for (int64_t i = 0; i < n; ++i) y[i] = polynomial_exp(x[i]); }}
extern "C" void apply_down(const float* x, float* y, int64_t n) {{ for (int64_t i = 0; i < n; ++i) y[i] = polynomial_exp_down(x[i]); }}
extern "C" void apply_tanh(const float* x, float* y, int64_t n) {{ for (int64_t i = 0; i < n; ++i) y[i] = polynomial_tanh(x[i]); }}
"""


@pytest.fixture(scope="module")
def helpers(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    text = CALLS.format(helpers="\n".join(HELPERS[n] for n in ("polynomial_exp", "polynomial_exp_down", "polynomial_tanh")))
    return trial._compile(text, tmp_path_factory.mktemp("helpers") / "helpers.so", ())


def applied(helpers: ctypes.CDLL, name: str, x: np.ndarray) -> np.ndarray:
    x = np.ascontiguousarray(x, np.float32)
    y = np.empty_like(x)
    helpers[name](ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_int64(x.size))
    return y


@pytest.mark.parametrize(("name", "low", "high"), [("apply_exp", -87.3, 88.7), ("apply_exp", -1.0, 1.0), ("apply_down", -87.3, 0.0)])
def test_the_exponential_is_accurate_and_unbiased(helpers: ctypes.CDLL, name: str, low: float, high: float) -> None:
    x = np.linspace(low, high, 400_001).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    error = (applied(helpers, name, x) - exact) / exact / trial.UNIT
    assert np.abs(error).max() < 1.35
    assert abs(error.mean()) < 0.02
    assert np.sqrt((error**2).mean()) < 0.5


def test_the_tanh_is_accurate(helpers: ctypes.CDLL) -> None:
    x = np.concatenate([np.linspace(-12, 12, 400_001), np.geomspace(1e-30, 1, 10_001)]).astype(np.float32)
    exact = np.tanh(x.astype(np.float64))
    error = (applied(helpers, "apply_tanh", x) - exact) / np.where(exact == 0, 1, exact) / trial.UNIT
    assert np.abs(error).max() < 4


def test_special_values_go_through(helpers: ctypes.CDLL) -> None:
    x = np.array([-np.inf, -1e30, -104, -87.4, 0, -0.0, 88.8, 1e30, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(
        applied(helpers, "apply_exp", x), np.array([0, 0, 0, 0, 1, 1, np.inf, np.inf, np.inf, np.nan], np.float32)
    )
    down = np.array([-np.inf, -1e30, -87.4, 0, np.nan], np.float32)
    np.testing.assert_array_equal(applied(helpers, "apply_down", down), np.array([0, 0, 0, 1, np.nan], np.float32))
    tanh = np.array([-np.inf, -1e30, 0, 1e30, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(applied(helpers, "apply_tanh", tanh), np.array([-1, -1, 0, 1, 1, np.nan], np.float32))
    assert np.signbit(applied(helpers, "apply_tanh", np.array([-0.0], np.float32)))[0]


def test_infinities_and_nan_stay_where_the_seed_has_them(tmp_path: Path) -> None:
    """A masked row, a row that is all masked, a row with NaN, one with +inf: softmax after the whole chain against its seed."""
    chain = chained("softmax")[-1][1]
    made = trial.case("softmax", "normal", 5, 301, 3, 1, np.random.default_rng(5))
    x = made.inputs[0]
    x[0, ::2], x[1, :], x[2, 7], x[3, 9] = -np.inf, -np.inf, np.nan, np.inf
    outputs = []
    for run in trial.build([trial.seed("softmax"), chain], tmp_path):
        assert trial.call(run, made) == 0
        outputs.append(made.out.copy())
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=3e-6, atol=0)
    assert np.isfinite(outputs[0][0]).all()
    assert np.isnan(outputs[0][1:4]).all()
