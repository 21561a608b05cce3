"""The corpus for a GPU, as far as that can be told without one: its form, and that everything compiles. `tests/gpu` judges it."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import evokern_hip
import pytest

from evokern.backend import Limits
from evokern.errors import Unavailable
from evokern.evaluator.catalogue import find_task
from evokern.sandbox import Spawner
from evokern.study.attacks import DEVICE_CORPUS, Kind, corpus_folder, load_corpus, load_device_corpus
from evokern.task import DType
from tests.gpu import kernels

CORPUS = load_device_corpus()
SHARED = (corpus_folder() / DEVICE_CORPUS / "tasks" / "softmax" / "honest.h").read_text().rstrip()
HEADERS = Path(__file__).parents[2] / "evokern" / "include"
SHIM = Path(evokern_hip.__file__).parent / "shim"


@pytest.fixture(scope="module")
def spawner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spawner]:
    with Spawner.start({}, scratch=tmp_path_factory.mktemp("scratch")) as made:
        yield made


def test_there_are_enough_in_cuda_and_in_triton() -> None:
    attacks = CORPUS.of_kind(Kind.ATTACK)

    assert len({exhibit.name for exhibit in CORPUS.exhibits}) == len(CORPUS.exhibits) == 2 * len(attacks)
    assert {dialect: sum(e.dialect == dialect for e in attacks) >= 12 for dialect in ("cuda", "triton")} == {"cuda": True, "triton": True}


def test_rows_are_those_of_the_list() -> None:
    rows = set(tomllib.loads((corpus_folder() / "rows.toml").read_text()))

    assert {row for exhibit in CORPUS.of_kind(Kind.ATTACK) for row in exhibit.rows} - rows == set()


def test_an_attack_differs_from_its_twin_and_from_every_other() -> None:
    twins = {exhibit.name: exhibit for exhibit in CORPUS.of_kind(Kind.TWIN)}
    attacks = CORPUS.of_kind(Kind.ATTACK)

    assert len({attack.kernel.id for attack in attacks}) == len(attacks)
    for attack in attacks:
        assert attack.kernel != twins[f"{attack.name}.twin"].kernel


def test_the_corpus_of_processors_has_none_of_them() -> None:
    assert {exhibit.dialect for exhibit in load_corpus().exhibits} == {"cpp"}


def test_a_file_that_is_dropped_in_is_read_with_its_twin(tmp_path: Path) -> None:
    (tmp_path / "tasks" / "softmax").mkdir(parents=True)
    (tmp_path / "tasks" / "softmax" / "honest.py").write_text("c\n")
    (tmp_path / "M01_new.py").write_text(
        '# M01: new\n# task: softmax\n# expect: wrong/tolerance\n# include "honest.py"\n# attack:\na\n# honest:\nb\n# end\n'
    )

    attack, twin = load_device_corpus(tmp_path).exhibits

    assert (attack.name, attack.dialect, twin.name) == ("M01_new", "triton", "M01_new.twin")
    assert attack.source.splitlines()[-2:] == ["c", "a"]
    assert twin.source.splitlines()[-2:] == ["c", "b"]


@pytest.mark.parametrize("which", ["the corpus", "the ladder's", "the ladder's in HIP"])
def test_every_source_compiles(tmp_path: Path, which: str) -> None:
    from evokern_gpu import toolkit

    try:
        nvcc = toolkit.find().nvcc
    except Unavailable as error:
        pytest.skip(error.line)
    corpus = {exhibit.name: exhibit.source for exhibit in CORPUS.exhibits if exhibit.dialect == "cuda"}
    sources = {"the corpus": corpus, "the ladder's": kernels.of_cuda(), "the ladder's in HIP": kernels.of_hip()}
    file = tmp_path / "all.cu"
    file.write_text(together(sources[which]))

    # For the debugger: nothing is made fast, which is quicker. What it makes of the code does not matter here.
    options = ["-arch=sm_90", "-std=c++17", "-w", "-G", "-c", f"-I{HEADERS}", f"-I{SHIM}", "-o", str(tmp_path / "all.o")]
    done = subprocess.run([str(nvcc), *options, str(file)], capture_output=True, text=True, timeout=240, check=False)

    assert done.returncode == 0, done.stderr[-3000:]


def test_every_kernel_in_triton_compiles(spawner: Spawner, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    from evokern_triton.calls import calls_for
    from evokern_triton.gates import gate

    shapes = calls_for(find_task("softmax", home=tmp_path).on("gpu"), DType.BFLOAT16)[:1]
    sources = [exhibit.source for exhibit in CORPUS.exhibits if exhibit.dialect == "triton"]
    for source in [*distinct(sources), kernels.AUTOTUNED]:
        (found,) = gate(source, shapes, ["cuda:90"], sandbox=spawner, limits=Limits(seconds=120.0))
        assert found.ok, found.log


def distinct(sources: Sequence[str]) -> list[str]:
    """One source for each text of its kernels."""
    return list({"".join(part.partition("\n\n\n")[0] for part in source.split("@triton.jit")[1:]): source for source in sources}.values())


def together(sources: Mapping[str, str]) -> str:
    """Sources as one, each in a namespace of its own: a compiler takes seconds to start, and less for each."""
    heads, bodies, is_shared = list[str](), list[str](), any(SHARED in source for source in sources.values())
    for number, (name, source) in enumerate(sources.items()):
        lines = source.replace(SHARED, "").splitlines()
        heads += [line for line in [*SHARED.splitlines(), *lines] if line.startswith("#include")]
        own = [line.split()[1].split("(")[0] for line in lines if line.startswith("#define")]
        body = "\n".join(line for line in lines if not line.startswith("#include"))
        bodies.append(f"#define run run_{number}\n#define workspace_size workspace_size_{number}\nnamespace of_{number} {{\n")
        bodies.append(f'#line 1 "{name}"\n{body}\n}}\n' + "".join(f"#undef {word}\n" for word in ("run", "workspace_size", *own)))
    shared = "\n".join(line for line in SHARED.splitlines() if not line.startswith("#include")) if is_shared else ""
    return "\n".join([*dict.fromkeys(heads), shared, "".join(bodies)])
