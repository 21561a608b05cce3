"""TritonBackend with the real compiler in the real sandbox and no GPU: builds, gates, the interpreter, and what a runner will find."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evokern_triton import artefact, calls, gates, lifting
from evokern_triton.backend import TritonBackend
from evokern_triton.gates import gate
from evokern_triton.interpreting import Given, interpret_all
from evokern_triton.target import TARGETS

from evokern.backend import Built, Limits
from evokern.errors import Unavailable
from evokern.evaluation import Reason
from evokern.kernel import Kernel
from evokern.sandbox import Spawner
from evokern.task import DType, Task, load_task

pytest.importorskip("triton")

ROOT = Path(__file__).parents[2]
CORE = ROOT / "benchmarks" / "tasks" / "core"
OURS = ("bias_gelu", "cross_entropy", "rmsnorm", "softmax")
SEEDS = [CORE / task / "seeds" / f"triton-{dtype}.py" for task in OURS for dtype in ("bfloat16", "float32")]
LIMITS = Limits(seconds=90)


@pytest.fixture(scope="module")
def spawner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawner]:
    with Spawner.start({}, scratch=tmp_path_factory.mktemp("scratch")) as made:
        yield made


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


class Builds:
    def __init__(self, spawner: Spawner, cache: Path, task: str = "softmax", dtype: DType = DType.FLOAT32) -> None:
        self.task: Task = load_task(CORE / task)
        self.dtype, self.spawner, self.cache = dtype, spawner, cache
        self.backend = TritonBackend("cuda:90").for_task(self.task, dtype)

    def __call__(self, source: str, limits: Limits = LIMITS, entry: str = "run") -> Built:
        return self.backend.build([Kernel("triton", source, entry)], sandbox=self.spawner, cache=self.cache, limits=limits)[0]


@pytest.fixture(scope="module")
def build(spawner: Spawner, cache: Path) -> Builds:
    return Builds(spawner, cache)


HEAD = "import triton\nimport triton.language as tl\n\n"

COPY = f"""{HEAD}
BLOCK = 1024  # tune: 512 1024


@triton.jit
def copy(x, y, cols, x_stride, y_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(y + row * y_stride + at, tl.load(x + row * x_stride + at, mask=at < cols), mask=at < cols)


def run(x, y):
    copy[(x.shape[0],)](x, y, x.shape[1], x.stride(0), y.stride(0), BLOCK=BLOCK)
"""

PRODUCTS = f"""{HEAD}
@triton.jit
def products(x, y, cols, stride):
    m, k = tl.arange(0, 128), tl.arange(0, 64)
    total = tl.zeros([128, 128], tl.float32)
    for start in range(0, cols, 64):
        left = tl.load(x + m[:, None] * stride + start + k[None, :])
        total += tl.dot(left, tl.load(x + m[None, :] * stride + start + k[:, None]))
    tl.store(y + m[:, None] * stride + m[None, :], total)


def run(x, y):
    products[(1,)](x, y, x.shape[1], x.stride(0), num_stages=6, num_warps=8)
"""
"""Buffers for five steps of 64 KiB."""

FORGERY = """
import os
from evokern_triton.artefact import Artefact
open("artefact", "wb").write(Artefact("def run(*_): pass", "cuda:90", (), {}).encoded())
open("report.json", "w").write('{"reason": "none", "log": "", "visible": [[]]}')
os._exit(0)
"""

FILL = "held = [b'x' * (1 << 20) for _ in range(3 << 10)]"
"""Three gigabytes."""

# The state of a runner, less the device: what launches ask for is looked up in the artefact.
LOOK_UP = """
import json, sys
from evokern_triton import module, specialising, stand_in
from evokern_triton.artefact import decoded
from evokern_triton.target import target_for
from evokern_triton.tensor import DTYPES, Tensor

class Found:
    function = packed_metadata = None
    def __init__(self, made): self.made = made
    def launch_metadata(self, *rest): return None
    def run(self, *rest): return None

made = decoded(open(sys.argv[1], "rb").read())
store = specialising.Store(made.specialisations)
target = target_for(made.arch)
specialising.install(specialising.Driver(target), lambda wanted: Found(store.find(wanted)))
stand_in.install(target.properties, target.capability)
run = module.module_of(made.source).run
told = []
for values in json.load(sys.stdin):
    run(*(Tensor(v["address"], v["shape"], v["strides"], DTYPES[v["dtype"]]) if v["shape"] else v["number"] for v in values))
    told.append([store.exact, store.general, store.missing])
assert "numpy" not in sys.modules
print(json.dumps(told))
"""


def looked_up(built: Built, wanted: list[list[dict[str, Any]]]) -> list[list[int]]:
    """(exact, general, missing) so far, after each call."""
    paths = {"PYTHONPATH": ":".join([str(ROOT / "backends"), *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-c", LOOK_UP, str(built.artefact)],
        input=json.dumps(wanted),
        env=paths,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[list[int]] = json.loads(done.stdout)
    return found


def values_of(call: calls.Call) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = calls.encoded([call])[0]["values"]  # type: ignore[assignment]
    return found


class TestSeeds:
    @pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{seed.parents[1].name}-{seed.stem}")
    def test_build_for_what_visible_workloads_ask(self, seed: Path, spawner: Spawner, cache: Path) -> None:
        builds = Builds(spawner, cache, seed.parents[1].name, DType(seed.stem.partition("-")[2]))
        built = builds(seed.read_text())

        assert (built.ok, built.reason) == (True, Reason.NONE), built.log
        assert built.traits["spill_bytes"] == "0" and built.traits["occupancy"] in ("middle", "high")
        assert float(built.traits["wide_share"]) > 0.5
        assert {image.name.partition("-")[0] for image in built.images} == {"image"}
        asked = calls.calls_for(builds.task, builds.dtype)
        found = looked_up(built, [values_of(call) for call in asked])
        visible = sum(call.visible for call in asked)
        assert found[visible - 1][1:] == [0, 0], "a visible call is not served exactly"
        assert found[-1][2] == 0, "some call would be compiled in the runner"

    def test_are_what_retuning_expects(self) -> None:
        from evokern.syntax.tunables import tunables_of

        assert {one.name for seed in SEEDS for one in tunables_of(seed.read_text(), "triton")} == {"BLOCK", "WARPS"}

    @pytest.mark.parametrize("seed", SEEDS[::2], ids=lambda seed: seed.parents[1].name)
    def test_compile_for_every_target(self, seed: Path, spawner: Spawner) -> None:
        shapes = calls.calls_for(load_task(seed.parents[1]), DType.BFLOAT16)[:1]
        found = gate(seed.read_text(), shapes, sandbox=spawner, limits=LIMITS)

        assert {one.target: one.reason for one in found} == dict.fromkeys(TARGETS, "none")
        assert all(need.registers > 0 and need.local_bytes == 0 for one in found for need in one.needs)


class TestBuild:
    def test_a_product_is_found_again(self, build: Builds) -> None:
        first, again = build(COPY), build(COPY)

        assert first.seconds > 0 and again.seconds == 0
        assert (first.digest, first.images, first.traits) == (again.digest, again.images, again.traits)

    def test_symbols_tell_specialisations_apart(self, build: Builds) -> None:
        built = build(COPY)
        assert built.artefact is not None
        made = artefact.decoded(built.artefact.read_bytes())

        assert len({one.symbol for one in made.specialisations}) == len(made.specialisations) == len(built.images) > 3
        assert all(one.symbol.encode() in made.images[one.image] for one in made.specialisations)

    def test_two_builds_are_the_same(self, build: Builds, spawner: Spawner, tmp_path: Path) -> None:
        other = Builds(spawner, tmp_path)(COPY)

        assert other.digest == build(COPY).digest and [i.name for i in other.images] == [i.name for i in build(COPY).images]

    def test_longest_rows_with_a_block_of_their_own_are_foreseen(self, build: Builds) -> None:
        built = build(COPY.replace("BLOCK=BLOCK)", "BLOCK=triton.next_power_of_2(x.shape[1]))"))
        x = {"name": "x", "dtype": "float32", "shape": [3, 20_000], "strides": [20_000, 1], "address": 1 << 20}
        short = {**x, "shape": [3, 300], "strides": [300, 1]}

        assert looked_up(built, [[x, x], [short, short]]) == [[0, 1, 0], [0, 1, 1]]

    @pytest.mark.parametrize(
        ("old", "new", "reason", "log"),
        [
            ("def run(", "def run(:", Reason.SYNTAX, "kernel.py"),
            ("def run(", "def start(", Reason.ENTRY, "defines no function 'run'"),
            ("tl.load(", "tl.lode(", Reason.COMPILER, "lode"),
            ("tl.arange(0, BLOCK)", "tl.arange(0, BLOCK - 1)", Reason.COMPILER, "arange's range must be a power of 2"),
            ("import triton\n", "import triton\nimport torch.nn.functional\n", Reason.COMPILER, "No module named 'torch.nn'"),
            ("def run(x, y):", "def run(x, y):\n    import torch\n    torch.empty(3)", Reason.COMPILER, "comes as `workspace`"),
            ("def run(x, y):", "def run(x, y):\n    x.softmax(-1)", Reason.COMPILER, "but no 'softmax'"),
            ("def run(x, y):", "def run(x, y):\n    open('/etc/passwd')", Reason.COMPILER, "No such file"),
            ("BLOCK=BLOCK)", "BLOCK=BLOCK, num_warps=64)", Reason.RESOURCES, "2048 threads a block"),
            ("def run(x, y):", "def run(x, y):\n    import os\n    os._exit(3)", Reason.COMPILER, ""),
            ("def run(x, y):", f"def run(x, y):\n    {FILL}", Reason.MEMORY, ""),
            ("def run(x, y):", "def run(x, y):\n    while True: pass", Reason.DEADLINE_BUILD, ""),
        ],
    )  # fmt: skip
    def test_a_failure_says_why(self, build: Builds, old: str, new: str, reason: Reason, log: str) -> None:
        assert old in COPY
        limits = Limits(memory_bytes=2 << 30, seconds=8 if reason is Reason.DEADLINE_BUILD else 90)
        built = build(COPY.replace(old, new, 1), limits)

        assert (built.ok, built.reason) == (False, reason), built.log
        assert log in built.log
        assert built.artefact is None

    def test_a_compile_error_shows_line_and_caret(self, build: Builds) -> None:
        lines = build(COPY.replace("tl.load(", "tl.lode(")).log.splitlines()
        place = next(number for number, line in enumerate(lines) if "tl.lode(" in line)

        assert lines[place + 1].strip() == "^"
        assert lines[0].startswith("at 5:")

    def test_shared_memory_that_no_block_may_have_is_a_matter_of_resources(self, build: Builds) -> None:
        built = build(PRODUCTS)

        assert built.reason == Reason.RESOURCES and "bytes of shared memory a block" in built.log

    def test_a_product_holds_the_kernels_own_text_whatever_its_code_writes(self, build: Builds) -> None:
        source = COPY.replace("def run(x, y):", f"def run(x, y):\n    exec({FORGERY!r})")
        built = build(source)

        assert built.ok and built.artefact is not None, built.log
        assert artefact.decoded(built.artefact.read_bytes()).source == source

    @pytest.mark.parametrize("dialect", ["cpp", "cuda"])
    def test_takes_its_own_dialect_alone(self, build: Builds, dialect: str) -> None:
        built = build.backend.build([Kernel(dialect, COPY)], sandbox=build.spawner, cache=build.cache, limits=LIMITS)[0]

        assert built.reason == Reason.UNSUPPORTED

    def test_one_bad_kernel_spoils_no_other(self, build: Builds) -> None:
        kernels = [Kernel("triton", source) for source in (COPY, "def", COPY.replace("1024  #", "512  #"))]
        found = build.backend.build(kernels, sandbox=build.spawner, cache=build.cache, limits=LIMITS)

        assert [one.ok for one in found] == [True, False, True]

    def test_instruments_build(self, build: Builds) -> None:
        kernels = list(build.backend.instruments().values())

        assert all(one.ok for one in build.backend.build(kernels, sandbox=build.spawner, cache=build.cache, limits=LIMITS))

    def test_without_a_task_there_is_nothing_to_build_for(self, build: Builds) -> None:
        with pytest.raises(ValueError, match="for_task"):
            TritonBackend("cuda:90").build([Kernel("triton", COPY)], sandbox=build.spawner, cache=build.cache, limits=LIMITS)

    def test_without_a_gpu_it_says_so(self) -> None:
        if Path("/dev/nvidia0").exists():
            pytest.skip("there is a GPU")
        with pytest.raises(Unavailable):
            TritonBackend().probe()
        with pytest.raises(Unavailable, match="float32"):
            TritonBackend().require(DType.INT8)


RUN = "def run(x, y):"
LAUNCH = "copy[(x.shape[0],)](x, y, x.shape[1], x.stride(0), y.stride(0), BLOCK=BLOCK)"
JIT = "@triton.jit"


def changed(*pairs: tuple[str, str]) -> str:
    """The copy with texts replaced, each once."""
    source = COPY
    for old, new in pairs:
        assert old in source
        source = source.replace(old, new, 1)
    return source


NO_BLOCK = (LAUNCH, LAUNCH.replace(", BLOCK=BLOCK", ""))
CONFIGURATIONS = '[triton.Config({"BLOCK": 256}, num_warps=2), triton.Config({"BLOCK": 512}, num_warps=4)]'
AUTOTUNED = changed((JIT, f'@triton.autotune(configs={CONFIGURATIONS}, key=["cols"])\n{JIT}'), NO_BLOCK)
HEURISTIC = '@triton.heuristics({"BLOCK": lambda given: min(4096, triton.next_power_of_2(given["cols"]))})'
PROCESSORS = 'triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"]'
WARMED = """kernel = copy.warmup(x, y, x.shape[1], x.stride(0), y.stride(0), BLOCK=BLOCK, num_stages=2, grid=(1,))
    kernel._init_handles()
    occupancy = 65536 // (kernel.n_regs * 32 * 4 + kernel.metadata.shared)
    kernel[(x.shape[0], 1, 1)](x, y, x.shape[1], x.stride(0), y.stride(0), BLOCK)"""
SIZED = """def workspace_size(shapes):
    return 4 * shapes[0][0]


def run(x, y, workspace):
    import torch
    workspace.view(torch.uint8)"""

REAL_WORLD = {
    "autotune": AUTOTUNED,
    "autotune_lifted": lifting.lifted(AUTOTUNED),
    "heuristics": changed((JIT, f"{HEURISTIC}\n{JIT}"), NO_BLOCK),
    "torch_at_top": changed(
        ("import triton\n", "import torch\nfrom torch import Tensor\nimport triton\n"),
        (RUN, "@torch.no_grad()\ndef run(x: torch.Tensor, y: Tensor) -> None:\n    assert x.is_cuda and x.dtype is torch.float32"),
    ),
    "persistent": changed(("(x.shape[0],)", f"(min(x.shape[0], {PROCESSORS}),)")),
    "tutorial_warmup": changed((LAUNCH, WARMED)),
    "workspace": changed((RUN, SIZED)),
    "views": changed((RUN, f"{RUN}\n    x = x.view(-1, x.shape[-1])\n    assert x.stride(-1) == 1")),
    "atomics": changed(("tl.store(y + row", "tl.atomic_add(y + row")),
    "typed_arguments": changed(("cols, x_stride", "cols: tl.int32, x_stride: tl.int64")),
    "not_specialised": changed((JIT, '@triton.jit(do_not_specialize=["cols", "x_stride"])')),
    "helper": changed(
        (JIT, f"{JIT}\ndef same(v):\n    return v\n\n\n{JIT}"), ("at < cols), mask", "at < cols)), mask"), ("tl.load(", "same(tl.load(")
    ),
    "alias": changed(("copy[(x.shape[0],)](", "launch = copy[(x.shape[0], 1)]\n    launch(")),
}


@pytest.mark.parametrize("name", REAL_WORLD)
def test_real_world_styles_build(build: Builds, name: str) -> None:
    built = build(REAL_WORLD[name])

    assert built.ok, built.log
    asked = [call for call in calls.calls_for(build.task, build.dtype) if call.visible]
    if name not in ("tutorial_warmup", "workspace"):  # the look-up has neither a device nor a workspace
        assert looked_up(built, [values_of(call) for call in asked])[-1][1:] == [0, 0]


class TestGate:
    def test_names_what_fails_and_where(self, spawner: Spawner) -> None:
        shapes = calls.calls_for(load_task(CORE / "softmax"), DType.FLOAT32)[:1]
        clusters = COPY.replace("BLOCK=BLOCK)", "BLOCK=BLOCK, num_ctas=2)")
        found = {one.target: one for one in gate(clusters, shapes, ["cuda:80", "cuda:90"], sandbox=spawner, limits=LIMITS)}

        assert found["cuda:80"].reason == Reason.COMPILER and "num_ctas" in found["cuda:80"].log
        assert found["cuda:90"].ok and isinstance(found["cuda:90"].needs[0], gates.Need)


def reference(task: str, values: dict[str, Any]) -> Any:
    x = np.asarray(values.get("x", values.get("logits")), np.float64)
    if task == "rmsnorm":
        return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * values["weight"]
    if task == "bias_gelu":
        s = x + values["bias"]
        return 0.5 * s * (1 + np.tanh(np.sqrt(2 / np.pi) * (s + 0.044715 * s**3)))
    exponentials = np.exp(x - x.max(1, keepdims=True))
    if task == "softmax":
        return exponentials / exponentials.sum(1, keepdims=True)
    return np.log(exponentials.sum(1)) + x.max(1) - x[np.arange(len(x)), values["labels"]]


@pytest.mark.torch
@pytest.mark.parametrize("task", OURS)
def test_seeds_are_right_in_the_interpreter(task: str, spawner: Spawner) -> None:
    rng = np.random.default_rng(7)
    wanted, given = [], []
    for rows, cols, pad in ((3, 1, 0), (5, 33, 0), (2, 3000, 7), (1, 2048, 0)):
        x = rng.normal(scale=3, size=(rows, cols + pad)).astype(np.float32)[:, :cols]
        x[0, 0] = 30
        values: dict[str, Any] = {"logits" if task == "cross_entropy" else "x": x}
        if task == "cross_entropy":
            values["labels"] = rng.integers(0, cols, rows)
        if task in ("rmsnorm", "bias_gelu"):
            values["weight" if task == "rmsnorm" else "bias"] = rng.normal(size=cols).astype(np.float32)
        out = np.full((rows,) if task == "cross_entropy" else (rows, cols + pad), np.nan, np.float32)
        arguments = [Given(name, str(value.dtype), value) for name, value in values.items()]
        arguments += [Given("eps", "float32", number=1e-6)] if task == "rmsnorm" else []
        given.append([*arguments, Given("out", "float32", out if out.ndim == 1 else out[:, :cols])])
        wanted.append((values, reference(task, values)))
    kernel = Kernel("triton", (CORE / task / "seeds" / "triton-float32.py").read_text())
    found = interpret_all(kernel, given, sandbox=spawner)

    assert found[0].ok, found[0].log
    for one, (values, right) in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.outputs["out"], right, rtol=2e-5, atol=1e-6)
        for name, value in values.items():
            np.testing.assert_array_equal(one.outputs[name], value)


@pytest.mark.torch
def test_the_interpreter_says_what_a_kernel_raised(spawner: Spawner) -> None:
    x = np.zeros((2, 4), np.float32)
    source = COPY.replace("def run(x, y):", "def run(x, y):\n    raise ValueError('of my own')")
    found = interpret_all(Kernel("triton", source), [[Given("x", "float32", x), Given("y", "float32", x.copy())]], sandbox=spawner)

    assert (found[0].ok, found[0].reason) == (False, Reason.REFUSED) and "of my own" in found[0].log


IN_THE_RUNNER = """
import dataclasses, sys
import evokern_triton.loader
from triton.backends.compiler import GPUTarget
from evokern_triton import module, specialising, stand_in
from evokern_triton.artefact import decoded
from evokern_triton.compiling import compiled
from evokern_triton.target import target_for
from evokern_triton.tensor import DTYPES, Tensor

made = decoded(open(sys.argv[1], "rb").read())
version = made.specialisations[0].version
target = target_for(made.arch)

def no_process(event, arguments):
    written = event == "open" and arguments[1] not in ("r", "rb", None)
    assert not written and event not in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec", "os.system", "socket.__new__"), event

class Launched(Exception): pass

def compile_here(wanted):
    options = dataclasses.replace(wanted.options, ptx_version=version)
    found = compiled(wanted.source, GPUTarget("cuda", 90, 32), options, last="ptx", suffix="here")
    print(found.metadata["name"], found.code.decode()[:300])
    raise Launched

specialising.install(specialising.Driver(target), compile_here)
stand_in.install(target.properties, target.capability)
sys.addaudithook(no_process)
x = Tensor(1 << 20, (5, 77), (80, 1), DTYPES["float32"])
try:
    module.module_of(made.source).run(x, x)
except Launched:
    print("launched")
"""


def test_a_runner_compiles_without_a_process_or_a_file(build: Builds) -> None:
    paths = {"PYTHONPATH": ":".join([str(ROOT), str(ROOT / "backends"), *filter(None, sys.path)])}
    command = [sys.executable, "-c", IN_THE_RUNNER, str(build(COPY).artefact)]
    done = subprocess.run(command, env=paths, capture_output=True, text=True, check=False)

    assert done.stdout.startswith("copy_here ") and ".target sm_90a" in done.stdout and "launched" in done.stdout, done.stderr
    assert done.stderr == ""


def test_importing_the_backend_loads_nothing_heavy() -> None:
    program = "import evokern_triton.gates, sys; print([m for m in ('torch', 'triton', 'libcst') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": f"{ROOT}:{ROOT / 'backends'}"}, capture_output=True, text=True, check=False
    )

    assert done.stdout.strip() == "[]", done.stderr


def test_importing_the_loader_needs_no_gpu_and_no_torch() -> None:
    program = "import evokern_triton.loader, sys; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    paths = ":".join([str(ROOT), str(ROOT / "backends"), *filter(None, sys.path)])
    done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": paths}, capture_output=True, text=True, check=False)

    assert done.stdout.strip() == "[]", done.stderr
