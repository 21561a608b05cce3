"""A session: one task on one device, made ready and kept ready by a judge."""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path
from statistics import median

import evokern
from evokern import plugins
from evokern.backend import Backend, Built, Limits
from evokern.errors import Unavailable, UsageError
from evokern.evaluation import BASELINE, Evaluation, Fingerprint, Ratio, Reason, Verdict
from evokern.evaluator import health
from evokern.evaluator.call import runner
from evokern.evaluator.call.caller import Caller, Fault
from evokern.evaluator.call.contestant import CANDIDATE, Contestant, KernelContestant, ResidentContestant
from evokern.evaluator.call.exchange import write
from evokern.evaluator.call.mapped import ENVIRONMENT
from evokern.evaluator.call.window import Frame
from evokern.evaluator.ladder import CONFIRM_BLOCKS, Ladder
from evokern.evaluator.machine import machine_of
from evokern.evaluator.profile import Counted, profile_of
from evokern.evaluator.reference import admission, baseline, held_out, oracle
from evokern.evaluator.reference.baseline import Baseline
from evokern.evaluator.reference.oracle import Oracle
from evokern.evaluator.reference.sets import Shelf
from evokern.evaluator.rule.trial import deadline, held_out_points, visible_points
from evokern.evaluator.screen import seeds_of
from evokern.evaluator.secrecy import Secret, fresh_secret, kept_secret
from evokern.evaluator.signing import PRODUCTS, kept_seed
from evokern.evaluator.statement import Closing, ClosingRow, Health, Opening, Preparation, WorkloadTimes
from evokern.evaluator.timing.clock import JudgedClock
from evokern.evaluator.timing.stopping import CLUSTERS, never
from evokern.kernel import Kernel
from evokern.sandbox.spawner import Spawner
from evokern.statistics.roofline import Ceilings, floor_us, work_of
from evokern.task import DType, Task, Workload, load_task

EVALUATOR = f"evokern/{evokern.__version__}"

BASELINE_CLUSTERS = 6
"""Allocations behind the choice of the fastest baseline; every elite is measured against it anew."""

BUILD_SECONDS = 60.0
BUILD_MEMORY = 2 << 30
RUN_PROCESSES = 64
KERNEL_ZYGOTES = ("kernel-0", "kernel-1", "kernel-2")
"""Processes that kernels' runners are forked from: each has its heap and its stack at places of its own."""

TORCH_MEMORY = 12 << 30


class Session:
    """Builders, oracle, baselines and clock of one task.

    Args:
        opening: What the engine asked for.
        say: Told what takes time.

    Attributes:
        task: The task.
        dtype: Element type.
        ladder: Judges kernels.
        spawner: Where all slots come from.
        secret: The run's key.
        preparation: What was found; what the engine is told.

    Raises:
        EvokernError: The task is wrong, or something needed is not here.
    """

    def __init__(self, opening: Opening, say: Callable[[str], None]) -> None:
        start = time.monotonic()
        self._say = say
        self.opening = opening
        self.dtype: DType = opening.dtype
        self._backend: Backend = plugins.load("backend", opening.backend)()
        self._facts = self._backend.probe()
        self._backend.require(self.dtype)
        self._idle_ns = 0.0
        self._home = Path(opening.home)
        self._runner_cpus, self._judge_cpus = split_cpus(opening.threads)
        self._machine = machine_of(self._backend, self._home, self._runner_cpus)
        self._loaded: Task = load_task(Path(opening.task_folder))
        self.task: Task = self._loaded.on(self._machine.kind)
        self._backend = self._backend.for_task(self.task, self.dtype)
        os.sched_setaffinity(0, self._judge_cpus)
        loader = self._backend.loader().split(":")[0]
        # The spawner and its zygotes start before any key is drawn, so that no key can be in memory they inherit.
        self.spawner = Spawner.start(
            {name: [runner.__name__, loader] for name in KERNEL_ZYGOTES}
            | {"torch": [*oracle.MODULES, *self._machine.torch_modules]}
            | dict(self._machine.zygotes),
            scratch=self._home / "scratch",
            renew_after=dict.fromkeys(KERNEL_ZYGOTES, self._machine.forks),
        )
        try:
            self._make_ready(start)
        except Fault as fault:
            self.spawner.close()
            raise Unavailable(
                f"the machine cannot be measured: {fault.detail or fault.reason}", mend="Try again when it is less busy"
            ) from None
        except BaseException:
            self.spawner.close()
            raise

    def _make_ready(self, start: float) -> None:
        opening = self.opening
        self.secret = kept_secret(self._home / "keys" / opening.key_name) if opening.key_name else fresh_secret()
        # A key of the home, so that a later judge takes what this one built.
        self._seal = kept_seed(self._home / PRODUCTS)
        self._building = threading.Semaphore(opening.builds)
        self._say("starting the oracle and the baselines")
        self._shelf = Shelf(self.task, self._oracle(), self.secret)
        degenerate = tuple(admission.admit(self._loaded, self.dtype, self._shelf.oracle, self.secret))
        if degenerate and not opening.degenerate:
            raise UsageError(
                f"the task cannot tell good kernels from bad ones: {degenerate[0]}",
                where=self.task.name,
                mend="Mend it, or run it with --degenerate",
            )
        clock = self._machine.clock(self.task, opening.threads, self._shelf, self._deadline)
        clock.evictor.settle()
        self._server = self._build_server()
        instruments = {name: self._instrument(name, kernel) for name, kernel in self._backend.instruments().items()}
        clock.calibrate(instruments["null"], self.task.search[0], self.secret)
        self._idle_ns = self._baseline_null(clock)
        self._instruments = instruments
        self._baselines, times = self._time_baselines(clock, instruments["copy"])
        baselines = self._baselines
        best = {w: baselines[t.best].callers[w] for w, t in times.items() if t.timed}
        timed = [w for w in self.task.search if w.name in best]
        clock.calibrate_gap(instruments["copy"], timed, self.secret)
        again = replace(instruments["copy"], name="copy again")
        clock.calibrate_margin(instruments["copy"], again, timed, self.secret)
        self._times = times
        self._say("drawing inputs and their expected outputs")
        self._draw_held_out(opening.epoch)
        fingerprint = self._fingerprint()
        self.ladder = Ladder(
            task=self.task,
            dtype=self.dtype,
            fingerprint=fingerprint,
            secret=self.secret,
            shelf=self._shelf,
            clock=clock,
            baselines=ResidentContestant(BASELINE, best, null_ns=self._idle_ns, sealed=bool(self._machine.device_entry)),
            times=times,
            held_out=self._gated,
            build=self.build,
            contestant=self._contestant,
            timed_form=self._machine.timed,
            kept_bytes=self._machine.kept_bytes(),
            floors=self._floors(),
            describe=self._backend.read,
            seeds=seeds_of(self.task.folder),
            degenerate=bool(degenerate),
        )
        if not best:
            raise UsageError(
                "every visible workload is too short to time on this device", where=self.task.name, mend="Add larger ones to task.toml"
            )
        self.preparation = Preparation(
            fingerprint,
            self.spawner.tier,
            tuple(times.values()),
            clock.null_ns / 1000,
            clock.resolution_ns / 1000,
            degenerate,
            time.monotonic() - start,
            gate_bits=held_out.budget_bits(self.task),
            ceilings=self._machine.ceilings(),
        )

    def _floors(self) -> dict[str, float]:
        """Fitted floor of the time on each visible workload; none where the device has no ceilings."""
        ceilings = Ceilings.of_device(self._machine.ceilings(), self.dtype)
        if ceilings is None:
            return {}
        return {w.name: floor_us(work_of(self.task, dict(w.axes), self.dtype), ceilings) for w in self.task.search}

    def _draw_held_out(self, epoch: int) -> None:
        """The held-out set of an epoch, with the values that its checks need."""
        self._held_out = held_out.draw(self.task, self.secret.key, epoch)
        self._gated = [*self._held_out, *held_out.sweep(self.task, self.secret.key, epoch)]
        for point in [*visible_points(self.task), *held_out_points(self.task, self._gated)]:
            self._shelf.checked(dict(point.axes), point.distribution, point.index)

    def rotate(self, epoch: int) -> Preparation:
        """Retire the held-out set: from now on the gate asks for that of another epoch; holds the lease."""
        self._draw_held_out(epoch)
        fingerprint = replace(self.preparation.fingerprint, held_out_epoch=epoch)
        self.ladder.held_out, self.ladder.fingerprint = self._gated, fingerprint
        self.ladder.outcomes.retire()
        self.preparation = replace(self.preparation, fingerprint=fingerprint)
        return self.preparation

    @property
    def gate_is_worn(self) -> bool:
        """Whether the gate has told as much as it may of this held-out set; late answers tell more than a bit."""
        return self.ladder.outcomes.bits >= self.preparation.gate_bits

    def probe(self) -> Health:
        """Whether the machine still copies rightly, in about the time that it took at the start; holds the lease."""
        workload = self.ladder.timed[0]
        known = self._times[workload.name].times_us.get("copy", 0.0)
        return health.probe(self.ladder.clock, self._instruments["copy"], workload, self._shelf, self.secret, known_us=known)

    def profiled(self, kernel: Kernel, evaluation: Evaluation, *, counted: bool) -> Evaluation:
        """An evaluation with where the kernel's time goes; as it is where the kernel was not timed.

        Args:
            kernel: Whose.
            evaluation: Of it.
            counted: Whether the device is asked for its counters, which holds the lease for seconds.
        """
        found = self._counted(kernel, evaluation) if counted and evaluation.measurements else None
        return replace(evaluation, profile=profile_of(evaluation, self.task, self.preparation, found))

    def _counted(self, kernel: Kernel, evaluation: Evaluation) -> Counted:
        built, names = self.build(kernel), {m.workload for m in evaluation.measurements}
        if not built.ok:
            return Counted(missing="it cannot be built any more")
        workloads = [w for w in self.task.search if w.name in names]
        try:
            return Counted(self._machine.counters(self._contestant(CANDIDATE, kernel, built), kernel, built, workloads), "")
        except Unavailable as error:
            return Counted(missing=error.line)

    def build(self, kernel: Kernel) -> Built:
        """Build a kernel or find its product in the cache; any number of threads may ask."""
        with self._building:
            cpus = tuple(sorted(self._judge_cpus))
            limits = Limits(memory_bytes=BUILD_MEMORY, seconds=BUILD_SECONDS, cpus=cpus)
            if kernel.dialect not in self._backend.dialects:
                return Built(
                    False,
                    None,
                    "unsupported",
                    f"backend {self._backend.name} takes {', '.join(self._backend.dialects)}, not {kernel.dialect}",
                )
            return self._backend.build([kernel], sandbox=self.spawner, cache=self._home / "build", limits=limits, seal=self._seal)[0]

    def finish(self, champion: Kernel, seed: Kernel | None) -> Closing:
        """Measure the champion once more against everything, held-out workloads included, which retires them."""
        self._say("measuring the best kernel once more, on the held-out shapes too")
        secret = self.secret.derive("finish", champion.id)
        built = self.build(champion)
        candidate = self._timed(CANDIDATE, champion, built)
        rivals: dict[str, Contestant] = dict(self._baselines)
        if seed is not None and seed.id != champion.id:
            rivals["seed"] = self._kernel_as_rival(seed)
        try:
            rows = [self._closing_row(candidate, w, rivals, secret, held_out=False) for w in self.ladder.timed]
            rows += self._held_out_rows(candidate, secret)
            correct, detail = True, ""
        except Fault as fault:
            rows, correct, detail = [], False, f"{fault.verdict}: {fault.detail}"
        names = tuple(f"{w.name} {w.layout}" for w in self._held_out)
        return Closing(tuple(rows), names, correct, _speed_kept(rows), detail)

    def close(self) -> None:
        """End every process."""
        self.spawner.close()
        self._machine.close()

    def _closing_row(
        self, candidate: Contestant, workload: Workload, rivals: Mapping[str, Contestant], secret: Secret, *, held_out: bool
    ) -> ClosingRow:
        clock, versus, times = self.ladder.clock, dict[str, Ratio](), dict[str, float]()
        own: list[float] = []
        for name, rival in rivals.items():
            # The seed is slow, and held-out workloads have no interval to defend: one block of each allocation is enough.
            blocks = 1 if held_out or name == "seed" else CONFIRM_BLOCKS
            series = clock.compare(candidate, rival, [workload], secret.derive(name), clusters=CLUSTERS, blocks=blocks, stop=never)[
                workload.name
            ]
            ratio = series.ratio(CANDIDATE, rival.name)
            if ratio is not None:
                versus[name] = ratio
                times[name] = median(series.times_ns(rival.name)) / 1000
                own += series.times_ns(CANDIDATE)
        baselines = {n: t for n, t in times.items() if n in rivals and n != "seed"}
        if not baselines:
            raise Fault(Verdict.INFRASTRUCTURE, Reason.NOISE, "the machine was too busy for a time that can be trusted")
        best = min(baselines, key=lambda n: baselines[n])
        times["copy"] = clock.glance(self._instruments["copy"], workload, secret)
        time_us = median(own) / 1000
        return ClosingRow(workload.name, held_out, time_us, times, best, versus, times["copy"] / time_us)

    def _held_out_rows(self, candidate: Contestant, secret: Secret) -> list[ClosingRow]:
        """The held-out workloads that eager takes long enough on, contiguous: layouts are the gate's matter."""
        points = [Workload(w.axes) for w in self._held_out if w.timed_hint]
        rivals = {"eager": self._baseline("eager", points)}
        if "compile" in self._baselines:
            # One compilation with symbolic shapes serves them all; one for each shape would take minutes.
            rivals["compile_dynamic"] = self._baseline("compile_dynamic", points)
        rows = []
        for workload in points:
            if self.ladder.clock.glance(rivals["eager"], workload, secret) >= self._machine.shortest_us(self.ladder.clock):
                rows.append(self._closing_row(candidate, workload, rivals, secret.derive(workload.name), held_out=True))
        return rows

    def _kernel_as_rival(self, kernel: Kernel) -> Contestant:
        return replace(self._timed("seed", kernel, self.build(kernel)), trusted=True)

    def _deadline(self, workload: Workload) -> float:
        return deadline(self.task, dict(workload.axes), self.dtype)

    def _oracle(self) -> Oracle:
        slot = self.spawner.slot(
            oracle.ENTRY, zygote="torch", descriptors=[],
            argument=oracle.argument(self.task, self.dtype, on_device=bool(self._machine.device_entry)),
            limits=self._torch_limits(self._judge_cpus), policy=self._machine.torch_policy, readable=self._torch_folders(),
        )  # fmt: skip
        return Oracle(slot.socket, self.task, self.dtype)

    def _baseline(self, variant: str, workloads: Sequence[Workload] | None = None) -> ResidentContestant:
        """A baseline that is compiled and warm on the workloads."""
        chosen = self.task.search if workloads is None else workloads
        cache = open_cache(self._home / "cache" / "inductor")
        caller = Caller(
            self.spawner, entry=baseline.ENTRY, zygote="torch",
            argument=baseline.argument(
                self.task, variant, threads=self.opening.threads, cache=cache, device_entry=self._machine.device_entry
            ),
            limits=self._torch_limits(self._runner_cpus), policy=self._machine.torch_policy, readable=self._torch_folders(),
            writable=[cache], environment=ENVIRONMENT, sealed=True,
        )  # fmt: skip
        try:
            shapes = [dict(w.axes) for w in chosen]
            caller.bind(Frame(self.task, self.dtype, shapes, trusted=True, memory=self._machine.torch_memory))
        except Fault as fault:
            raise Unavailable(
                f"the baseline '{variant}' does not start: {fault.detail}. {fault.log.strip()[-500:]}",
                mend="`evokern doctor` says what is missing",
            ) from None
        rng = self.secret.stream("baseline", variant)
        for workload in chosen:
            exchange = write(
                self.task, caller, dict(workload.axes), self._shelf.timed(workload, 0), rng, layout="contiguous", permute=False
            )
            caller.asked(exchange.placed, Baseline(caller.slot.socket, self.task, self.dtype).prepare)
        return ResidentContestant(variant, {w.name: caller for w in chosen}, null_ns=self._idle_ns, sealed=bool(self._machine.device_entry))

    def _baseline_null(self, clock: JudgedClock) -> float:
        """What a call of a baseline costs beside its work; its process is ended."""
        workload = self.task.search[0]
        idle = self._baseline(baseline.IDLE, [workload])
        try:
            return clock.idle_ns(idle, workload, self.secret)
        finally:
            idle.callers[workload.name].close()

    def _time_baselines(self, clock: JudgedClock, copy: Contestant) -> tuple[dict[str, ResidentContestant], dict[str, WorkloadTimes]]:
        """Eager on every visible workload, the others on those that are long enough."""
        eager = self._baseline("eager")
        looks = {w.name: clock.glance(eager, w, self.secret) for w in self.task.search}
        timed = [w for w in self.task.search if looks[w.name] >= self._machine.shortest_us(clock)]
        baselines = {"eager": eager}
        times: dict[str, dict[str, float]] = {w.name: {"eager": looks[w.name]} for w in self.task.search}
        for variant in self.opening.baselines:
            if variant != "eager" and timed:
                self._say(f"starting the baseline '{variant}'; what it compiles is kept for later runs")
                baselines[variant] = self._baseline(variant, timed)
                self._take_errors(baselines[variant], timed)
        for rival in [*(b for n, b in baselines.items() if n != "eager"), copy]:
            series = clock.compare(rival, eager, timed, self.secret.derive("baselines", rival.name), clusters=BASELINE_CLUSTERS, stop=never)
            for name, one in series.items():
                for who in (rival.name, "eager"):
                    times[name][who] = median(one.times_ns(who) or [math.inf]) / 1000
        found = {}
        for workload in self.task.search:
            mine = times[workload.name]
            best = min((n for n in mine if n in baselines), key=lambda n: mine[n])
            found[workload.name] = WorkloadTimes(workload.name, workload in timed, mine, best)
        return baselines, found

    def _take_errors(self, rival: ResidentContestant, timed: Sequence[Workload]) -> None:
        """Let a compiled baseline's own error count in the rule, on every set of the workloads that it was compiled for."""
        rng = self.secret.stream("errors", rival.name)
        for workload in timed:
            caller, axes = rival.callers[workload.name], dict(workload.axes)
            points = [p for p in visible_points(self.task) if p.axes == workload.axes]
            sets = [self._shelf.timed(workload, i) for i in range(self._shelf.count(workload))]
            for values in sets + [self._shelf.checked(axes, p.distribution, p.index) for p in points]:
                exchange = write(self.task, caller, axes, values, rng, layout="contiguous", permute=False)
                ask = Baseline(caller.slot.socket, self.task, self.dtype).values
                values.add_reference(caller.asked(exchange.placed, ask), self.dtype)

    def _build_server(self) -> Built | None:
        server = self._backend.server()
        return None if server is None else self._own(server, "server")

    def _instrument(self, name: str, kernel: Kernel) -> KernelContestant:
        built = self._own(kernel, f"'{name}' instrument")
        # What does nothing is there to time what a call costs with its host code.
        return replace((self._contestant if name == "null" else self._timed)(name, kernel, built), trusted=True)

    def _own(self, kernel: Kernel, what: str) -> Built:
        """A product of the evaluator's own code, which a compiler that works can build."""
        built = self.build(kernel)
        if not built.ok:
            raise Unavailable(
                f"the compiler cannot build the {what}: {built.log.strip()[-300:]}", mend="`evokern doctor` says what is missing"
            )
        return built

    def _contestant(self, name: str, kernel: Kernel, built: Built) -> KernelContestant:
        assert built.artefact is not None
        threads = str(self.opening.threads)
        return KernelContestant(
            name, self.task, self.dtype, built.artefact, kernel.entry, self._backend.loader(), self.spawner, KERNEL_ZYGOTES,
            self._limits(), {"OMP_NUM_THREADS": threads, "OMP_PROC_BIND": "true"}, digest=built.digest, server=self._server,
            everywhere=sorted(self._runner_cpus | self._judge_cpus), memory=self._machine.memory,
        )  # fmt: skip

    def _timed(self, name: str, kernel: Kernel, built: Built) -> KernelContestant:
        """A kernel of ours as it is timed."""
        return self._machine.timed(self._contestant(name, kernel, built), kernel, built)[0]

    def _torch_folders(self) -> list[Path]:
        return python_folders(*(name.partition(".")[0] for name in self._machine.torch_modules))

    def _limits(self) -> Limits:
        return Limits(memory_bytes=self._machine.memory_bytes, processes=RUN_PROCESSES, cpus=tuple(sorted(self._runner_cpus)))

    def _torch_limits(self, cpus: set[int]) -> Limits:
        return Limits(memory_bytes=TORCH_MEMORY, processes=512, file_bytes=1 << 30, output_bytes=64 << 20, cpus=tuple(sorted(cpus)))

    def _fingerprint(self) -> Fingerprint:
        facts, limits = self._facts, self._limits()
        return Fingerprint(
            evaluator=EVALUATOR,
            backend=facts.backend,
            device=facts.device,
            driver=facts.driver,
            compiler=facts.compiler,
            flags=" ".join(facts.flags),
            libraries=f"torch {metadata.version('torch')}, numpy {metadata.version('numpy')}",
            policy=self.task.policy,
            threads=self.opening.threads,
            tier=self.spawner.tier,
            limits=f"memory {limits.memory_bytes}, processes {limits.processes}",
            baselines=tuple(self._baselines),
            held_out_epoch=self.opening.epoch,
        )


def _speed_kept(rows: Sequence[ClosingRow]) -> float | None:
    """Geomean speed-up over the best baseline on held-out workloads, over that on visible ones."""
    logs: dict[bool, list[float]] = {True: [], False: []}
    for row in rows:
        logs[row.held_out].append(math.log(row.versus[row.best].estimate))
    if not all(logs.values()):
        return None
    return math.exp(sum(logs[True]) / len(logs[True]) - sum(logs[False]) / len(logs[False]))


def open_cache(folder: Path) -> Path:
    """A folder that every slot's user id may write, inside one that outsiders cannot enter.

    A cache that another user or copy left unwritable would stop every compilation, so it is made anew.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    closed = (path for path in folder.rglob("*") if not path.is_symlink() and not path.stat().st_mode & stat.S_IWOTH)
    if next(closed, None) is not None:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    return folder


@cache
def allowed_cpus() -> frozenset[int]:
    """Processors that this process might use when it was first asked: a session narrows them down to the judge's."""
    return frozenset(os.sched_getaffinity(0))


def split_cpus(threads: int) -> tuple[set[int], set[int]]:
    """Processors for runners and for the judge; the same ones where there are too few.

    Args:
        threads: Threads granted to a kernel.

    Raises:
        UsageError: There are not so many processors.
    """
    allowed = sorted(allowed_cpus())
    if threads > len(allowed):
        raise UsageError(f"{threads} threads on {len(allowed)} processors", where="--threads", mend=f"At most {len(allowed)}")
    runner = set(allowed[-threads:])
    return runner, set(allowed) - runner or runner


def python_folders(*packages: str) -> list[Path]:
    """What a process that imports torch must read: the interpreter, the folders of torch and numpy, and this package alone.

    Args:
        packages: Names of further packages, each of which is read alone.
    """
    found = {Path(sys.prefix), Path(sys.base_prefix), Path(evokern.__file__).parent}
    for name in packages:
        package = importlib.util.find_spec(name)
        found |= {Path(place) for place in (package.submodule_search_locations or () if package else ())}
    for name in ("torch", "numpy"):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise Unavailable(f"{name} is not installed", mend=f"pip install {name}")
        found.add(Path(spec.origin).parents[1])
    return sorted(found)
