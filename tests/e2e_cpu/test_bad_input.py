"""What a user gets wrong and what a machine lacks: one clear line, the right exit code, never a traceback, nothing lost."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e_cpu.conftest import Shell, read_until
from tests.e2e_cpu.small_task import CORE

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

USAGE, NOT_HERE = 2, 3


def refused(shell: Shell, argv: list[str], code: int, *parts: str, **variables: str) -> str:
    """The one line for people, which the command ends with; the document for programs says the same."""
    found, document, said = shell(*argv, timeout=60, **variables)
    assert (found, document["schema"], document["exit_code"]) == (code, "evokern.error/1", code), said
    assert {"error", "what", "where", "mend"} <= set(document)
    (line,) = [line for line in said.splitlines() if line.startswith("evokern: ")]
    assert said.splitlines()[-1] == line
    assert "Traceback" not in said
    for part in parts:
        assert part in line
    return line


def test_people_get_the_line_alone(shell: Shell, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    line = refused(shell, ["run", "--task", "sotfmax"], USAGE, EVOKERN_HOME=home)
    ended = shell.plain("run", "--task", "sotfmax", EVOKERN_HOME=home)
    assert (ended.returncode, ended.stdout, ended.stderr) == (USAGE, "", line + "\n")


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["run", "--task", "sotfmax"], ["no task is called 'sotfmax'", "Did you mean 'softmax'?"]),
        (["eval", "{seed}", "--task", "nothing_like_it"], ["no task is called 'nothing_like_it'", "evokern task list"]),
        (["run", "--task", "{folder}"], ["{folder}", "holds no task.toml"]),
        (["run"], ["no task is named", "evokern task list"]),
        (["eval", "{folder}/nowhere.cpp", "--task", "softmax"], ["nowhere.cpp", "cannot be read"]),
        (["eval", "{folder}", "--task", "softmax"], ["{folder}", "cannot be read"]),
        (["eval", "{folder}/notes.txt", "--task", "softmax"], ["notes.txt", ".cpp"]),
        (["eval", "{folder}/image.cpp", "--task", "softmax"], ["image.cpp", "not UTF-8"]),
        (["run", "--task", "softmax", "--seed-kernel", "{folder}/nowhere.cpp"], ["nowhere.cpp", "cannot be read"]),
        (["run", "--task", "softmax", "--backend", "cpuu"], ["cpuu", "cpu"]),
        (["run", "--task", "softmax", "--dtype", "float31"], ["float31", "float32"]),
        (["run", "--task", "softmax", "--minutes", "-1"], ["--minutes", "above 0"]),
        (["run", "--task", "softmax", "--evals", "many"], ["--evals", "integer"]),
        (["run", "--task", "softmax", "--evalls", "3"], ["--evalls"]),
        (["rum"], ["rum"]),
        (["run", "--config", "{folder}/nowhere.toml"], ["nowhere.toml", "cannot be read"]),
        (["run", "--config", "{folder}/broken.toml"], ["broken.toml", "not valid TOML"]),
        (["run", "--config", "{folder}/unknown.toml"], ["unknown.toml", "island", "Did you mean 'islands'?"]),
        (["run", "--config", "{folder}/type.toml"], ["type.toml", "threads", "'two'"]),
        (["run", "--config", "{folder}/budget.toml"], ["budget.toml", "hours and minutes"]),
    ],
)
def test_wrong_usage_is_code_2_and_makes_no_run(shell: Shell, tmp_path: Path, argv: list[str], parts: list[str]) -> None:
    files = {
        "notes.txt": "a kernel, some day",
        "broken.toml": "task = ",
        "unknown.toml": 'task = "softmax"\nisland = 2',
        "type.toml": 'task = "softmax"\nthreads = "two"',
        "budget.toml": 'task = "softmax"\n[budget]\nhours = 1\nminutes = 1',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "image.cpp").write_bytes(bytes(range(256)))
    filled = {"seed": str(CORE / "softmax" / "seeds" / "cpp-float32.cpp"), "folder": str(tmp_path)}
    home = tmp_path / "home"

    refused(shell, [part.format(**filled) for part in argv], USAGE, *(part.format(**filled) for part in parts), EVOKERN_HOME=str(home))

    assert not (home / "evokern.db").exists()


def test_a_file_that_is_no_kernel_is_a_verdict(shell: Shell, small_task: Path, tmp_path: Path) -> None:
    (tmp_path / "poem.cpp").write_text("Roses are red,\nviolets are blue.\n")
    code, document, said = shell("eval", str(tmp_path / "poem.cpp"), "--task", str(small_task))
    assert (code, document["verdict"], document["reason"]) == (1, "build_failed", "compiler")
    assert "Roses" in document["detail"] + document["log"]
    assert "Traceback" not in said


@pytest.mark.parametrize("argv", [["run", "--task", "softmax"], ["eval", "{seed}", "--task", "softmax"]])
def test_without_a_compiler_it_says_what_to_install(shell: Shell, tmp_path: Path, argv: list[str]) -> None:
    seed = str(CORE / "softmax" / "seeds" / "cpp-float32.cpp")
    (tmp_path / "bin").mkdir()
    variables = {"PATH": str(tmp_path / "bin"), "EVOKERN_HOME": str(tmp_path / "home")}
    refused(shell, [part.format(seed=seed) for part in argv], NOT_HERE, "no C++ compiler found", "apt install g++", **variables)
    if argv[0] == "run":
        code, document, _ = shell("doctor", **variables)
        assert (code, document["able"]) == (NOT_HERE, False)


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """A small file system in memory of its own."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", ",".join(options), "none", str(folder)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"nothing can be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_home_that_cannot_be_written(shell: Shell, tmp_path: Path) -> None:
    seed = str(CORE / "softmax" / "seeds" / "cpp-float32.cpp")
    with mounted(tmp_path / "disk", "size=1m", "ro") as disk:
        for argv in (["run", "--task", "softmax"], ["eval", seed, "--task", "softmax"], ["resume"]):
            home = disk / argv[0]
            refused(shell, argv, NOT_HERE, str(home), "EVOKERN_HOME", EVOKERN_HOME=str(home))
        refused(shell, ["status"], NOT_HERE, "no run has been made here yet", EVOKERN_HOME=str(disk))


def fill(disk: Path) -> Path:
    """Take every byte that is left."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


def test_a_disk_that_fills_up_loses_nothing_and_the_run_goes_on_when_there_is_space(
    eager_shell: Shell, small_task: Path, tmp_path: Path
) -> None:
    shell = eager_shell
    with mounted(tmp_path / "disk", "size=96m") as disk:
        home = {"EVOKERN_HOME": str(disk)}
        argv = shell.argv("run", "--task", str(small_task), "--minutes", "10", "--seed", "3", "--json")
        with subprocess.Popen(
            argv, env={**shell.environment, **home}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as running:
            assert running.stderr is not None
            try:
                heard = read_until(running.stderr, "passed")[-1]
                filler = fill(disk)
                out, said = running.communicate(timeout=120)
            finally:
                running.kill()
        assert running.returncode == NOT_HERE, said
        assert "Traceback" not in said
        assert json.loads(out)["schema"] == "evokern.error/1"
        (line,) = [line for line in said.splitlines() if line.startswith("evokern: ")]
        assert "full" in line or "No space left" in line
        assert "evokern resume" in line

        code, status, _ = shell("status", **home)
        assert code == 0
        assert status["state"] == "interrupted"
        assert status["evaluated"] >= 1
        code, top, _ = shell("top", **home)
        assert code == 0
        assert any(entry["kernel"].startswith(heard.split(",")[0].split()[-1]) for entry in top["kernels"])

        filler.unlink()
        code, summary, said = shell("resume", "--evals", str(status["evaluated"] + 1), **home)
        assert code == 0, said
        assert summary["run"] == status["run"]
        _, after, _ = shell("status", **home)
        assert after["evaluated"] > status["evaluated"]
        assert {entry["kernel"] for entry in top["kernels"]} <= {
            entry["kernel"] for entry in shell("top", "--count", "100", **home)[1]["kernels"]
        }
