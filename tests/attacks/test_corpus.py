"""The attack corpus: its form, and a sample of it judged up the real ladder, one test a kernel.

`EVOKERN_ATTACKS` says how many kernels are judged, or `all`; `EVOKERN_ATTACKS_SEED` which. Without them it is `SAMPLE` by `SEED`, the same
for every commit, so that a failure speaks of the commit and not of the draw; `make attacks` judges all.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import random
import threading
import tomllib
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from evokern.errors import UsageError
from evokern.evaluation import Clock, Evaluation, Ratio, Reason, Verdict
from evokern.evaluation import Measurement as Measured
from evokern.study.attacks import (
    Exhibit,
    Finding,
    Kind,
    Outcome,
    Tally,
    corpus_folder,
    judge_all,
    jury,
    load_corpus,
    outcome,
    region,
)
from evokern.study.mutation import MUTATIONS, mutants_of
from tests.attacks.test_calls import OUT_OF_TURN

ROOT = Path(__file__).parents[2]
SAMPLE = 32
SEED = "10ab1c0"
MUTANTS = 6
TASKS_IN_A_SAMPLE = ("softmax", "rmsnorm")
"""A judge takes seconds to start, so a sample is of two tasks."""

CORPUS = load_corpus()


def seed() -> str:
    """Of the sample and its mutants."""
    return os.environ.get("EVOKERN_ATTACKS_SEED", "") or SEED


def chosen() -> list[Exhibit]:
    """What is judged, one task after the other, so that at most two judges are at work."""
    wanted, drawn = os.environ.get("EVOKERN_ATTACKS", str(SAMPLE)), seed()
    if wanted == "all":
        return [*CORPUS.exhibits, *mutants_of(CORPUS, MUTANTS, drawn)]
    cheap = [e for e in CORPUS.exhibits if e.task in TASKS_IN_A_SAMPLE]
    small = type(CORPUS)(CORPUS.folder, tuple(cheap))
    sampled = [e for e in small.sample(int(wanted), drawn).exhibits if e.name not in OUT_OF_TURN]  # `test_calls` judges those always
    exhibits = [*sampled, *mutants_of(small, MUTANTS, drawn)]
    return sorted(exhibits, key=lambda exhibit: TASKS_IN_A_SAMPLE.index(exhibit.task))


CHOSEN = chosen()


class Bench:
    """Judges everything chosen in the background, in order; a test waits for its own kernel, and has it judged anew if it is run again."""

    def __init__(self, folder: Path) -> None:
        self.answers: dict[str, Future[Outcome]] = {exhibit.name: Future() for exhibit in CHOSEN}
        self._told: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._judge(folder),))
        self._thread.start()

    async def _judge(self, folder: Path) -> None:
        self._work = asyncio.current_task()
        try:
            async with jury(folder, lambda _: None, CORPUS.folder) as self._sworn:
                await judge_all(CHOSEN, self._sworn, lambda found: self.answers[found.exhibit.name].set_result(found))
                await asyncio.Event().wait()  # until `close`
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # whoever waits must hear of it
            for answer in self.answers.values():
                if not answer.done():
                    answer.set_exception(error)

    def outcome(self, exhibit: Exhibit) -> Outcome:
        """What was found; whoever asks twice hears of a second trial."""
        found = self.answers[exhibit.name].result()
        if exhibit.name in self._told:
            return asyncio.run_coroutine_threadsafe(self._sworn.judged(exhibit), self._loop).result()
        self._told.add(exhibit.name)
        return found

    def close(self) -> None:
        """End the judges; what nobody waits for any more is not judged."""
        if self._thread.is_alive() and self._work is not None:
            self._loop.call_soon_threadsafe(self._work.cancel)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    started = Bench(tmp_path_factory.mktemp("attacks"))
    yield started
    started.close()


@pytest.mark.timeout(900)  # one that is judged again waits for all that are queued
@pytest.mark.parametrize("exhibit", CHOSEN, ids=lambda exhibit: exhibit.name)
def test_the_verdict_is_right(bench: Bench, exhibit: Exhibit) -> None:
    found = bench.outcome(exhibit)

    assert found.good, f"{found.line} [EVOKERN_ATTACKS_SEED={seed()}]"


def test_there_are_enough_of_each_kind() -> None:
    assert len(CORPUS.of_kind(Kind.ATTACK)) >= 110
    assert len(CORPUS.of_kind(Kind.TWIN)) == len(CORPUS.of_kind(Kind.ATTACK))
    assert len(CORPUS.of_kind(Kind.ODD)) >= 25


def test_every_row_of_the_list_is_accounted_for() -> None:
    rows = tomllib.loads((corpus_folder() / "rows.toml").read_text())
    names = {exhibit.name for exhibit in CORPUS.of_kind(Kind.ATTACK)}
    own = {row for exhibit in CORPUS.of_kind(Kind.ATTACK) for row in exhibit.rows}

    assert own <= set(rows)
    for row, entry in rows.items():
        kinds = set(entry) - {"attack"}
        assert len(kinds) == 1 and kinds <= {"own", "files", "tests", "evidence", "why"}, row
        assert ("own" in entry) <= (row in own), f"no kernel is named after {row}"
        assert set(entry.get("files", [])) <= names, row
        for node in entry.get("tests", []):
            assert_test_exists(node)


def assert_test_exists(node: str) -> None:
    file, _, name = node.partition("::")
    tree = ast.parse((ROOT / file).read_text())
    assert name in {item.name for item in ast.walk(tree) if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)}, node


def test_no_kernel_is_there_twice() -> None:
    assert len({exhibit.kernel.id for exhibit in CORPUS.exhibits if exhibit.kind is not Kind.TWIN}) == len(
        [exhibit for exhibit in CORPUS.exhibits if exhibit.kind is not Kind.TWIN]
    )
    for attack in CORPUS.of_kind(Kind.ATTACK):
        assert attack.source != next(e.source for e in CORPUS.exhibits if e.name == f"{attack.name}.twin")


def test_a_file_that_is_dropped_in_is_read_with_its_twin(tmp_path: Path) -> None:
    (tmp_path / "U99_new.cpp").write_text(
        "// U99: new\n// task: softmax\n// expect: wrong/tolerance\na\n// attack:\nb\n// honest:\nc\n// end\nd\n"
    )

    attack, twin = load_corpus(tmp_path).exhibits

    assert (attack.name, attack.rows, attack.expected) == ("U99_new", ("U99",), ("wrong/tolerance",))
    assert attack.source.splitlines()[-3:] == ["a", "b", "d"]
    assert (twin.name, twin.kind, twin.source) == ("U99_new.twin", Kind.TWIN, attack.source.replace("b\n", "c\n"))


@pytest.mark.parametrize(
    "text",
    [
        "int run;",
        "// T01: no task\n// expect: wrong/tolerance\n",
        "// T01: no expectation\n// task: softmax\n",
        "// T01: no such verdict\n// task: softmax\n// expect: bad/tolerance\n// attack:\nx\n// honest:\n// end\n",
        "// T01: no such reason\n// task: softmax\n// expect: wrong/bad\n// attack:\nx\n// honest:\n// end\n",
        "// T01: no twin\n// task: softmax\n// expect: wrong/tolerance\nx\n",
        "// T01: a pass is no refusal\n// task: softmax\n// expect: passed/none\n// attack:\nx\n// honest:\n// end\n",
    ],
)
def test_a_head_that_is_wrong_is_refused_with_its_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "T01_bad.cpp").write_text(text)

    with pytest.raises(UsageError, match=r"T01_bad\.cpp"):
        load_corpus(tmp_path)


def exhibit(kind: Kind, *expected: str) -> Exhibit:
    return Exhibit("one", kind, ("T01",), "", "softmax", "", expected, "twin" if "no_gain" in expected else "")


def evaluation(verdict: Verdict, reason: Reason = Reason.NONE, gain: float | None = None) -> Evaluation:
    ratio = {} if gain is None else {"incumbent": Ratio(gain, gain, gain, 2, 8)}
    measured = Measured("w", Clock.JUDGED, 1.0, 0.0, 0.0, None, ratio)
    return Evaluation("k", "t", "float32", verdict, reason, measurements=() if gain is None else (measured,))


@pytest.mark.parametrize(
    ("shown", "said", "finding"),
    [
        (exhibit(Kind.ATTACK, "wrong/bias"), evaluation(Verdict.WRONG, Reason.BIAS), Finding.BLOCKED),
        (exhibit(Kind.ATTACK, "wrong/bias"), evaluation(Verdict.WRONG, Reason.TOLERANCE), Finding.OTHER_REASON),
        (exhibit(Kind.ATTACK, "wrong/bias"), evaluation(Verdict.PASSED), Finding.ESCAPED),
        (exhibit(Kind.ATTACK, "wrong/bias"), evaluation(Verdict.INFRASTRUCTURE, Reason.NOISE), Finding.UNDECIDED),
        (exhibit(Kind.ATTACK, "no_gain"), evaluation(Verdict.PASSED, gain=1.04), Finding.BLOCKED),
        (exhibit(Kind.ATTACK, "no_gain"), evaluation(Verdict.PASSED, gain=1.9), Finding.ESCAPED),
        (exhibit(Kind.ATTACK, "no_gain"), evaluation(Verdict.PASSED), Finding.ESCAPED),
        (exhibit(Kind.ODD), evaluation(Verdict.PASSED), Finding.PASSED),
        (exhibit(Kind.TWIN), evaluation(Verdict.WRONG, Reason.BIAS), Finding.FALSELY_REFUSED),
    ],
)
def test_what_is_right(shown: Exhibit, said: Evaluation, finding: Finding) -> None:
    found = outcome(shown, said)

    assert found.finding is finding
    assert Tally([found]).good is (finding in (Finding.BLOCKED, Finding.PASSED))


def test_a_tally_of_nothing_is_not_good() -> None:
    assert not Tally().good


def test_regions_are_what_the_two_sides_do_not_share() -> None:
    source = "a\n// attack:\nb\n// honest:\nc\n// end\nd\n"

    assert (region(source, "attack"), region(source, "honest")) == ("a\nb\nd\n", "a\nc\nd\n")


def test_a_seed_gives_the_same_sample_and_mutants() -> None:
    assert CORPUS.sample(30, "a") == CORPUS.sample(30, "a") != CORPUS.sample(30, "b")
    assert mutants_of(CORPUS, 20, "a") == mutants_of(CORPUS, 20, "a") != mutants_of(CORPUS, 20, "b")


def test_a_mutant_is_another_text_with_the_same_expectation() -> None:
    for mutant in mutants_of(CORPUS, len(CORPUS.of_kind(Kind.ATTACK)), "a"):
        original = next(e for e in CORPUS.exhibits if e.name == mutant.name.rsplit(".", 1)[0])
        assert mutant.source != original.source
        assert mutant.expected == original.expected
        assert mutant.hostile


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_mutation_changes_some_text_and_keeps_the_entry(mutation: Any) -> None:
    changed = 0
    for attack in CORPUS.of_kind(Kind.ATTACK)[::3]:
        text = mutation(attack.source, random.Random(1))
        assert text.count('extern "C" int run(') == 1, attack.name
        changed += text != attack.source
    assert changed > 5


def test_the_command_judges_by_name_and_says_what_was_found(capfd: pytest.CaptureFixture[str]) -> None:
    from evokern.cli.app import answer

    code = answer(["doctor", "--attacks", "--only", "M01_zeros", "--json"])

    printed, told = capfd.readouterr()
    document = json.loads(printed)
    assert code == 0, told
    assert document["schema"] == "evokern.attacks/1"
    assert {one["name"]: one["verdict"] for one in document["outcomes"]} == {"M01_zeros": "wrong", "M01_zeros.twin": "passed"}
    assert "[2/2]" in told


def test_the_command_refuses_a_name_that_no_kernel_has(capfd: pytest.CaptureFixture[str]) -> None:
    from evokern.cli.app import answer

    assert answer(["doctor", "--attacks", "--only", "no_such"]) == 2
    assert "no kernel of the corpus is called 'no_such'" in capfd.readouterr().err
