"""Held-out sizes leave the judge only when their set is retired: they are searched for in everything that a run makes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from evokern import record
from evokern.cli.run import settings_for
from evokern.config import load_config
from evokern.engine import Engine
from evokern.evaluation import Evaluation, Reason, Verdict
from evokern.evaluator.session import Session
from evokern.event import EventKind
from evokern.store import Journal
from tests.attacks.planted import COLUMNS, HONEST, kernel, odd_sizes
from tests.e2e_cpu.openai_server import OpenAIServer

pytestmark = [pytest.mark.torch, pytest.mark.timeout(400)]

SIZE = re.compile(r"(?<![\d.])(?:" + "|".join(map(str, COLUMNS)) + r")(?!\d)")
"""A held-out size as a number of its own, not as digits of a time or a hash."""

TELLTALE = kernel(
    'if (!visible) { printf("%ld\\n", (long)cols); fprintf(stderr, "cols=%ld\\n", (long)cols); fflush(stdout);'
    ' FILE* f = fopen("/tmp/size", "w"); if (f) { fprintf(f, "%ld", (long)cols); fclose(f); } return (int)cols; }'
    " softmax(args);"
)
"""Right on what everybody knows, and as loud as it can be on anything else."""

SPY = kernel(
    'softmax(args); if (!told++) { const int found = searched(".", 0) + searched("/tmp", 0) + searched("/dev", 0) + searched("/etc", 0)'
    ' + searched("/home", 0) + searched("/root", 0) + searched("/run", 0) + searched("/var", 0); if (found) return 77; }',
    before="""
#include <dirent.h>
#include <sys/stat.h>
static int told = 0;
static int holds(const char* path) {
  FILE* f = fopen(path, "r");
  if (!f) return 0;
  static char text[1 << 20];
  const size_t size = fread(text, 1, sizeof(text) - 1, f);
  fclose(f);
  for (int odd = 15991; odd <= 15993; odd += 2) {
    char wanted[16];
    snprintf(wanted, sizeof(wanted), "%d", odd);
    for (size_t i = 0; i + 5 <= size; ++i) if (!memcmp(text + i, wanted, 5)) return 1;
  }
  return 0;
}
static int searched(const char* folder, int depth) {
  DIR* d = depth < 5 ? opendir(folder) : 0;
  int found = 0;
  for (struct dirent* e; d && (e = readdir(d));) {
    char path[4096];
    struct stat s;
    snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || lstat(path, &s)) continue;
    found += S_ISDIR(s.st_mode) ? searched(path, depth + 1) : S_ISREG(s.st_mode) && holds(path);
  }
  if (d) closedir(d);
  return found;
}
""",
)
"""Looks for the sizes in every file that a runner can read beside the toolchain, and refuses its first call, which is a visible one, where
it finds any."""


@dataclass
class Told:
    """What one run told, without the closing, which retires its set.

    Attributes:
        prompts: Bodies of the calls to the model.
        events: Payloads from the journal.
        said: Lines on the display.
        closing: Payloads that retired the set.
        home: Folder of the run.
    """

    prompts: list[dict[str, Any]]
    events: list[Any]
    said: list[str]
    closing: list[Any]
    home: Path


class Listener:
    """A display that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def before_the_end(self) -> list[str]:
        """All up to the closing, which names the retired set."""
        closing = next(i for i, line in enumerate(self.lines) if "EventKind.CLOSED" in line)
        return self.lines[:closing]

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: self.lines.append(f"{arguments} {named}")


def assert_the_telltale_was_gated(payloads: list[Any]) -> None:
    judged = [record.from_json(Evaluation, e["evaluation"]) for e in payloads if isinstance(e, dict) and "evaluation" in e]
    by_kernel = {evaluation.kernel_id: evaluation for evaluation in judged}
    assert by_kernel[TELLTALE.id].verdict is Verdict.HELD_OUT_FAILED, by_kernel[TELLTALE.id]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("leaks")
    home, display = folder / "home", Listener()
    home.mkdir()
    with OpenAIServer(good_source=kernel("softmax(args);", how=1).source) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOKERN_API_BASE", server.api_base)
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setattr("evokern.engine.engine.LLM_FREE", ())  # all that is proposed comes from prompts
        settings = settings_for(load_config(None, {"task": str(odd_sizes(folder)), "model": "openai/test", "evals": 3}))
        settings = replace(settings, seeds=tuple((one.dialect, one.source) for one in (HONEST, TELLTALE)), options={"baselines": "eager"})
        engine = Engine(settings, home=home, display=display)  # type: ignore[arg-type]
        asyncio.run(engine.run())
        prompts = list(server.requests)
    with Journal(home, read_only=True) as journal:
        events = list(journal.events(engine.run_id))
    closing = [e.payload for e in events if e.kind is EventKind.CLOSED]
    assert_the_telltale_was_gated([e.payload for e in events])  # here, so that a test that is run again is about another run
    yield Told(prompts, [e.payload for e in events if e.kind is not EventKind.CLOSED], display.before_the_end(), closing, home)


def test_a_run_tells_no_held_out_size_before_its_set_is_retired(told: Told) -> None:
    assert SIZE.search(json.dumps(told.closing)), "the search finds what is there"
    assert told.prompts

    for what, content in (("prompt", told.prompts), ("journal", told.events), ("display", told.said)):
        for one in content:
            assert SIZE.search(json.dumps(one, default=str)) is None, (what, one)


def test_no_file_of_a_run_holds_a_held_out_size(told: Told) -> None:
    texts = [p for p in told.home.rglob("*") if p.is_file() and not p.is_symlink() and "journal" not in p.name and p.suffix != ".key"]
    for path in texts:
        assert SIZE.search(path.read_bytes().decode("latin-1")) is None or path.suffix in (".db", ".so"), path


def test_no_file_that_a_runner_can_read_holds_a_held_out_size(primes: Session) -> None:
    assert primes.ladder.judge(TELLTALE, primes.build(TELLTALE), None).reason is Reason.HELD_OUT

    evaluation = primes.ladder.judge(SPY, primes.build(SPY), None)

    assert evaluation.passed_held_out, (evaluation.reason, evaluation.detail)


def test_a_kernel_that_passed_tells_nothing_either(honest: Evaluation) -> None:
    assert honest.passed_held_out
    assert SIZE.search(json.dumps(record.to_json(honest))) is None
