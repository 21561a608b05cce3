"""One look at a real GPU: `python benchmarks/gpu_look/look.py --out DIR [--only SECTION]`, as root, for minutes.

Measures what the evaluator's contract with a device rests on (EVALUATOR sections 1, 2, 3 and 6): the judge's clock, shared memory,
slots, landlock and seccomp with CUDA, cold caches, sealed replay. Every section runs in a process of its own with a deadline; what
failed says so in the result. Writes DIR/gpu-look.json. Changes no setting of the device. Needs nvcc, and torch with triton for replay.
"""

from __future__ import annotations

import argparse
import glob
import json
import mmap
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import runner as protocol
import slot
from driver import packed
from judge import Judge, Runner
from stand import Stand

HERE = Path(__file__).resolve().parent

Found = dict[str, Any]
UID = 20001
EVERYTHING = ("pid", "net", "mount", "ipc", "uts")
LIMIT_S = 170
DURATIONS_US = (5, 10, 20, 50, 100, 200)
BURSTS = (1, 8, 64)
SAMPLES = 150
LAUNCH_WORD = 0x600D


# The judge's clock.


def clock(folder: Path, seed: int) -> Found:
    """Does the time to the end of the judge's snapshot grow one for one with the kernel; what does flagging early gain."""
    judge = Judge(folder, windows=1)
    started = ready(judge.start())
    judge.warm()
    honestly = [(us, protocol.HONEST) for us in DURATIONS_US] + [(0, protocol.NULL)]
    times, _ = shuffled(judge, started, honestly, seed)
    flagged, stale = shuffled(judge, started, [(100, protocol.EARLY), (100, protocol.BEFORE)], seed, pause_s=0.002)
    alone = [judge.call(started, mode=protocol.NULL)[0] for _ in range(SAMPLES)]
    honest = {us: times[us, protocol.HONEST] for us in DURATIONS_US}
    null = statistics.median(times[0, protocol.NULL])
    slope, intercept = statistics.linear_regression(DURATIONS_US, [statistics.median(honest[us]) for us in DURATIONS_US])
    late = long_and_early(judge, started)
    started.close()
    return {
        "samples": SAMPLES,
        "spin_by_device_events_us": spin_truth(judge),
        "timer_step_ns": timer_step(judge),
        "null_us": quartiles(times[0, protocol.NULL]),
        "null_in_a_row_us": quartiles(alone),
        "honest_us": {str(us): quartiles(values) for us, values in honest.items()},
        "slope": round(slope, 4),
        "context_switch_us": round(intercept - null, 1),
        "early_100us": {"time_us": quartiles(flagged[100, protocol.EARLY]), "stale_outputs": stale[100, protocol.EARLY] / SAMPLES},
        "before_100us": {"time_us": quartiles(flagged[100, protocol.BEFORE]), "stale_outputs": stale[100, protocol.BEFORE] / SAMPLES},
        "early_5ms": late,
    }


Case = tuple[int, int]


def shuffled(
    judge: Judge, started: Runner, cases: list[Case], seed: int, *, pause_s: float = 0.0
) -> tuple[dict[Case, list[float]], dict[Case, int]]:
    """Times and stale outputs by (us, mode), interleaved by chance; a pause lets late kernels end before the next call."""
    order = cases * SAMPLES
    random.Random(seed).shuffle(order)
    times: dict[Case, list[float]] = {case: [] for case in cases}
    stale = dict.fromkeys(cases, 0)
    for us, mode in order[:40]:
        judge.call(started, nanoseconds=us * 1000, mode=mode)
        time.sleep(pause_s)
    for us, mode in order:
        took, missed = judge.call(started, nanoseconds=us * 1000, mode=mode)
        times[us, mode].append(took)
        stale[us, mode] += missed
        time.sleep(pause_s)
    return times, stale


def long_and_early(judge: Judge, started: Runner) -> Found:
    """A kernel longer than a time slice whose DONE comes right after its launch: is the snapshot taken of unfinished outputs."""
    rows = []
    for _ in range(20):
        rows.append(judge.call(started, nanoseconds=5_000_000, mode=protocol.EARLY))
        time.sleep(0.012)
    honest = [judge.call(started, nanoseconds=5_000_000, mode=protocol.HONEST)[0] for _ in range(20)]
    return {"time_us": quartiles([took for took, _ in rows]), "stale_outputs": sum(n for _, n in rows) / 20, "honest_us": quartiles(honest)}


def bursts(folder: Path, seed: int) -> Found:
    """R: the spread of the null per call, for n calls on n windows revealed together; and the time of 10 us kernels so measured."""
    judge = Judge(folder, windows=max(BURSTS))
    started = ready(judge.start())
    judge.warm()
    cases = [(calls, mode) for calls in BURSTS for mode in (protocol.NULL, protocol.HONEST)]
    order = cases * SAMPLES
    random.Random(seed).shuffle(order)
    times: dict[Case, list[float]] = {case: [] for case in cases}
    for calls, mode in order:
        times[calls, mode].append(judge.call(started, calls=calls, nanoseconds=10_000, mode=mode)[0])
    alone = {calls: [judge.call(started, calls=calls, mode=protocol.NULL)[0] for _ in range(SAMPLES)] for calls in BURSTS}
    started.close()
    rows = {}
    for calls in BURSTS:
        null, honest = times[calls, protocol.NULL], times[calls, protocol.HONEST]
        low, middle, high = statistics.quantiles(null, n=4)
        rows[str(calls)] = {
            "null_us": quartiles(null),
            "resolution_us": round((high - low) / calls, 3),
            "resolution_in_a_row_us": round(spread(alone[calls]) / calls, 3),
            "honest_spread_us": round(spread(honest) / calls, 3),
            "per_call_us": [round((value - middle) / calls, 2) for value in statistics.quantiles(honest, n=4)],
        }
    at = {calls: statistics.median(times[calls, protocol.HONEST]) for calls in BURSTS}
    return {"calls": rows, "kernel_us": 10, "slope_8_to_64_us": round((at[64] - at[8]) / 56, 3)}


def channel(folder: Path, _: int) -> Found:
    """GO and DONE by socket and by mailbox, both sides in Python: alone, with snapshot, and with a kernel of 20 us."""
    judge = Judge(folder, windows=1)
    started = ready(judge.start())
    judge.warm()
    found: Found = {
        "socket_bare_us": quartiles([judge.bare_socket(started) for _ in range(400)]),
        "socket_null_us": quartiles([judge.call(started, mode=protocol.NULL)[0] for _ in range(400)]),
        "socket_20us": quartiles([judge.call(started, nanoseconds=20_000)[0] for _ in range(SAMPLES)]),
    }
    memory = os.memfd_create("mailbox")
    os.ftruncate(memory, mmap.PAGESIZE)
    box = mmap.mmap(memory, mmap.PAGESIZE)
    socket.send_fds(started.channel, [json.dumps({"op": "mailbox"}).encode()], [memory])
    found |= {
        "mailbox_bare_us": quartiles([judge.bare_mailbox(box) for _ in range(400)]),
        "mailbox_null_us": quartiles([judge.mail(box)[0] for _ in range(400)]),
        "mailbox_20us": quartiles([judge.mail(box, nanoseconds=20_000, mode=protocol.HONEST)[0] for _ in range(SAMPLES)]),
    }
    protocol.WORD.pack_into(box, 0, protocol.QUIT)
    started.close()
    return found


def spin_truth(judge: Judge) -> dict[str, float]:
    """The spin kernel by device events in a context that is alone, us."""
    start, end = judge.driver.event(), judge.driver.event()
    found = {}
    for us in DURATIONS_US:
        taken = []
        for _ in range(30):
            judge.driver.record(start)
            judge.launch("spin", 1, 32, packed("QQI", us * 1000, judge.windows[0], 1))
            judge.driver.record(end)
            judge.driver.synchronise()
            taken.append(judge.driver.elapsed_us(start, end))
        found[str(us)] = round(statistics.median(taken), 2)
    return found


def timer_step(judge: Judge) -> float:
    """Median step of the device's global timer, ns."""
    place = judge.driver.allocate(8 * 64)
    judge.launch("timer_step", 1, 1, packed("Qi", place, 64))
    judge.driver.synchronise()
    held = judge.driver.read(place, 8 * 64)
    return statistics.median(int.from_bytes(held[at : at + 8], "little") for at in range(0, len(held), 8))


# Slots.


def sharing(folder: Path, _: int) -> Found:
    """Memory by exported descriptor, written by a kernel of another process in each kind of slot."""
    judge = Judge(folder, windows=1)
    whole = {"uid": UID, "proc": True}
    cases = {
        "same user": slot.Settings(),
        "other uid": slot.Settings(uid=UID),
        "pid namespace, outer /proc": slot.Settings(uid=UID, namespaces=("pid",)),
        "pid and mount namespaces, own /proc": slot.Settings(namespaces=("pid", "mount"), **whole),
        "pid, net, mount, ipc, uts": slot.Settings(namespaces=EVERYTHING, **whole),
        "the same, and a user namespace without a map": slot.Settings(namespaces=(*EVERYTHING, "user"), **whole),
        "the same, in a mapped user namespace": slot.Settings(namespaces=("user-mapped", *EVERYTHING), **whole),
    }
    return each(judge, cases)


def neighbours(folder: Path, _: int) -> Found:
    """What a legacy IPC handle of one small allocation shows of the next, and how much an exported descriptor holds at least."""
    judge = Judge(folder, windows=1)
    public, secret = judge.driver.allocate(4096), judge.driver.allocate(4096)
    word = os.urandom(16)
    judge.driver.write(secret, word)
    rows = {}
    for name, settings in {"same user": slot.Settings(), "pid, net, mount, ipc, uts": slot.Settings(UID, EVERYTHING, proc=True)}.items():
        started = judge.start(settings, hand_over=False)
        handle = judge.driver.ipc_handle(public).hex()
        answer = (
            {"error": started.error}
            if started.error
            else started.order({"op": "neighbour", "handle": handle, "at": secret - public, "size": 16})
        )
        rows[name] = {"opened": "data" in answer, "neighbour_read": answer.get("data") == word.hex(), "error": answer.get("error", "")}
        started.close()
    return {"apart_bytes": secret - public, "legacy_ipc": rows, "exported_granularity": judge.driver.allocate_exported(1)[2]}


def landlock(folder: Path, _: int) -> Found:
    """Which paths CUDA needs: with every namespace and another uid, writing narrowed step by step."""
    judge = Judge(folder, windows=1)
    nodes = tuple(path for path in glob.glob("/dev/nvidia*") if not os.path.isdir(path))
    libraries = ("/usr", "/lib", "/lib64", "/etc", "/opt", str(folder), *os.environ.get("LD_LIBRARY_PATH", "").split(":"))

    def case(readable: Sequence[str], writable: Sequence[str]) -> slot.Settings:
        return slot.Settings(UID, EVERYTHING, proc=True, readable=tuple(filter(None, readable)), writable=tuple(writable))

    cases = {
        "read all; write GPU nodes, /proc": case(["/"], [*nodes, "/proc"]),
        "read all; write GPU nodes": case(["/"], nodes),
        "read libraries, /proc, /sys; write GPU nodes, /proc": case([*libraries, "/sys"], [*nodes, "/proc"]),
        "read libraries, /proc; write GPU nodes, /proc": case(libraries, [*nodes, "/proc"]),
        "read libraries, /proc; write GPU nodes, /proc, /dev/shm, /tmp": case(libraries, [*nodes, "/proc", "/dev/shm", "/tmp"]),
        "read libraries; write GPU nodes, /proc/self": case(libraries, [*nodes, "/proc/self"]),
        "read libraries; write GPU nodes": case(libraries, nodes),
    }
    return {"version": slot.landlock_version(), "nodes": sorted(nodes), "cases": each(judge, cases)}


def calls(folder: Path, _: int) -> Found:
    """Which system calls CUDA makes, which of them it cannot do without, and whether it lives with those alone."""
    judge = Judge(folder, windows=1)
    traced = judge.start(slot.Settings(seccomp="trace"))
    works = trial(judge, traced, 0)
    names = call_names()
    seen = dict(traced.calls)
    numbers = sorted({number for number, _ in seen} | set(slot.UNTRACED))
    denied = {names.get(number, str(number)): slot.Settings(seccomp="deny", calls=(number,)) for number in numbers}
    each_denied = each(judge, denied)
    needed = [number for number in numbers if each_denied.get(names.get(number, str(number)), {"works": False})["works"] is not True]
    always = (0, 1, 15, 46, 47, 60, 231)  # read, write, rt_sigreturn, sendmsg, recvmsg, exit, exit_group: the runner's own
    whole = {"uid": UID, "namespaces": EVERYTHING, "proc": True, "readable": ("/",), "seccomp": "allow"}
    writable = (*glob.glob("/dev/nvidia*"), "/proc")
    lists = {
        "all that was seen": slot.Settings(writable=writable, calls=tuple(sorted({*numbers, *always})), **whole),
        "what it cannot do without": slot.Settings(writable=writable, calls=tuple(sorted({*needed, *always})), **whole),
    }
    return {
        "trace": works,
        "seen": {names.get(n, str(n)) + (f" {argument:#x}" if argument else ""): count for (n, argument), count in sorted(seen.items())},
        "untraced": [names.get(number, str(number)) for number in slot.UNTRACED],
        "needed": {
            names.get(number, str(number)): each_denied.get(names.get(number, str(number)), {}).get("error", "") for number in needed
        },
        "allowed_alone": each(judge, lists),
    }


def call_names() -> dict[int, str]:
    """Names of system calls by number, where the kernel's headers are installed."""
    for path in ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"):
        if os.path.exists(path):
            return {int(number): name for name, number in re.findall(r"#define __NR_(\w+) (\d+)", Path(path).read_text(encoding="ascii"))}
    return {}


def each(judge: Judge, cases: dict[str, slot.Settings]) -> Found:
    """Try every slot, some at a time, each on a word of its own."""
    with ThreadPoolExecutor(6) as pool:
        return dict(pool.map(lambda item: (item[1][0], attempt(judge, item[1][1], item[0])), enumerate(cases.items())))


def attempt(judge: Judge, settings: slot.Settings, number: int) -> Found:
    """Start a runner in this slot and try it."""
    started = judge.start(settings)
    return trial(judge, started, number)


def trial(judge: Judge, started: Runner, number: int) -> Found:
    """Whether a kernel of the runner wrote its word into the judge's window."""
    try:
        answer = (
            {"error": started.error} if started.error else started.order({"op": "write", "at": 64 * number, "word": LAUNCH_WORD + number})
        )
    except (OSError, ValueError) as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    started.close()
    judge.driver.call("cuCtxSetCurrent", judge.driver.context)  # this may be another thread
    held = int.from_bytes(judge.driver.read(judge.windows[0] + 64 * number, 4), "little")
    found: Found = {"works": "error" not in answer and held == LAUNCH_WORD + number}
    return found | ({"error": answer["error"]} if "error" in answer else {"pid": answer["pid"], "uid": answer["uid"]})


# What a dead or a stopped runner leaves.


def faults(folder: Path, _: int) -> Found:
    """How fast a killed spinner is gone; what a stopped process's kernel does to the times of others."""
    judge = Judge(folder, windows=1)
    quiet = probe(judge)
    found: Found = {"quiet": quiet}
    killed = ready(judge.start())
    killed.order({"op": "spin", "ns": 20_000_000_000, "blocks": 132})
    time.sleep(0.2)
    began = time.perf_counter()
    killed.process.kill()
    killed.process.wait()
    found["killed"] = {"reaped_s": round(time.perf_counter() - began, 3), "after": probe(judge)}
    for blocks in (1, 132 * 8):
        stopped = ready(judge.start())
        stopped.order({"op": "spin", "ns": 3_000_000_000, "blocks": blocks})
        os.kill(stopped.process.pid, signal.SIGSTOP)
        found[f"stopped_with_{blocks}_blocks"] = probe(judge)
        stopped.process.kill()
        stopped.process.wait()
    return found


def probe(judge: Judge) -> Found:
    """A copy of 8 MB, thirty times: wall time and device events, us."""
    size = 8 << 20
    source, target = judge.driver.allocate(size), judge.driver.allocate(size)
    start, end = judge.driver.event(), judge.driver.event()
    walls, events = [], []
    for _ in range(30):
        began = time.perf_counter_ns()
        judge.driver.record(start)
        judge.launch("copy4", 1056, 512, packed("QQq", source, target, size // 16))
        judge.driver.record(end)
        judge.driver.synchronise()
        walls.append((time.perf_counter_ns() - began) / 1e3)
        events.append(judge.driver.elapsed_us(start, end))
    return {"wall_us": quartiles(walls), "events_us": quartiles(events)}


# Cold caches, ceilings, replay.


def eviction(folder: Path, _: int) -> Found:
    """A copy of 16 MiB after nothing, after reading and after writing four times the L2; with and without a blocker."""
    judge = Judge(folder)
    judge.warm()
    stream = judge.driver.stream()
    stand = Stand(judge.driver, judge.kernels, stream)
    size = 16 << 20
    source, target = judge.driver.allocate(size), judge.driver.allocate(size)

    def copy() -> None:
        judge.driver.launch(judge.kernel["copy4"], [1056], [512], packed("QQq", source, target, size // 16), stream=stream)

    found: Found = {"moved_bytes": 2 * size, "blocker_us": 1500}
    for how in ("nothing", "read", "write"):
        for blocker in (True, False):
            rows = [stand.sample(copy, eviction=how, blocker=blocker) for _ in range(SAMPLES)]
            void = sum(not held for _, held in rows) if blocker else 0
            found[f"{how}, {'blocker' if blocker else 'no blocker'}"] = {"us": quartiles([took for took, _ in rows]), "void": void}
    return found


def bandwidth(folder: Path, _: int) -> Found:
    """Copy, read and write of 4 GiB, TB/s of bytes moved, the median of ten."""
    judge = Judge(folder)
    judge.warm()
    size = 4 << 30
    source, target, word = judge.driver.allocate(size), judge.driver.allocate(size), judge.driver.allocate(4096)
    work = {
        "copy": (2, packed("QQq", source, target, size // 16)),
        "read": (1, packed("QQq", source, word, size // 16)),
        "write": (1, packed("QI4xq", target, 7, size // 16)),
    }
    start, end = judge.driver.event(), judge.driver.event()
    judge.launch("fill", 1056, 512, packed("QI4xq", source, 1, size // 4))
    found = {}
    for name, (passes, parameters) in work.items():
        taken = []
        for _ in range(12):
            judge.driver.record(start)
            judge.launch(f"{name}4", 132 * 16, 512, parameters)
            judge.driver.record(end)
            judge.driver.synchronise()
            taken.append(judge.driver.elapsed_us(start, end))
        found[f"{name}_tb_s"] = round(passes * size / statistics.median(taken[2:]) / 1e6, 2)
    return found


def replay(folder: Path, seed: int) -> Found:
    """Capture a launch list in a candidate's process, run it on fresh inputs without that process: equal bits, equal times."""
    import numpy as np

    found: Found = {}
    for kind in ("triton", "cuda"):
        captured, fresh = folder / f"{kind}-captured", folder / f"{kind}-fresh"
        for number, place in enumerate((captured, fresh)):
            place.mkdir()
            shutil.copy(folder / "candidate.so", place)
            values = np.random.default_rng(seed + number).random((4096, 4096), dtype=np.float32) + np.float32(0.25)
            (place / "input.bin").write_bytes(values.tobytes())
            command = [sys.executable, str(HERE / "candidate.py"), kind, str(place), str(folder / "kernels.cubin")]
            finish(command, timeout_s=90)
        for name in ("launches.json", "binary.cubin"):
            shutil.copy(captured / name, fresh)
        finish([sys.executable, "-E", "-s", "-S", str(HERE / "replay.py"), str(fresh), str(folder / "kernels.cubin")], timeout_s=60)
        launches = json.loads((fresh / "launches.json").read_text())["launches"]
        own, sealed = (json.loads((fresh / name).read_text()) for name in ("times.json", "replayed.json"))
        found[kind] = {
            "launches": [{**launch, "parameters": len(launch["parameters"])} for launch in launches],
            "relocated": sum("window" in held for launch in launches for held in launch["parameters"]),
            "bit_equal": (fresh / "output.bin").read_bytes() == (fresh / "replayed.bin").read_bytes(),
            "differs_from_other_input": (captured / "output.bin").read_bytes() != (fresh / "replayed.bin").read_bytes(),
            "own_us": quartiles(own),
            "sealed_us": quartiles(sealed),
            "sealed_over_own": round(statistics.median(sealed) / statistics.median(own), 4),
        }
    return found


# Running it.

SECTIONS: dict[str, Callable[[Path, int], Found]] = {
    section.__name__: section
    for section in (bandwidth, clock, bursts, channel, sharing, neighbours, landlock, calls, faults, eviction, replay)
}


def quartiles(values: Sequence[float]) -> list[float]:
    """Lower quartile, median, upper quartile."""
    return [round(value, 2) for value in statistics.quantiles(values, n=4)]


def spread(values: Sequence[float]) -> float:
    """Distance of the quartiles."""
    low, _, high = statistics.quantiles(values, n=4)
    return high - low


def ready(started: Runner) -> Runner:
    """A runner that started.

    Raises:
        RuntimeError: It did not.
    """
    if started.error:
        raise RuntimeError(started.error)
    return started


def finish(command: Sequence[str], *, timeout_s: float) -> str:
    """What a command printed.

    Raises:
        RuntimeError: It failed; the text is the end of what it said.
    """
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[:3]}: exit {done.returncode}: {done.stderr[-600:]}")
    return done.stdout


def build(folder: Path) -> None:
    """Kernels, candidate and the runner's files in a folder that every uid can read."""
    folder.chmod(0o755)
    capability = finish(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], timeout_s=30).split()[0].replace(".", "")
    nvcc = [shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc", f"-arch=sm_{capability}"]
    finish([*nvcc, "-cubin", "-o", str(folder / "kernels.cubin"), str(HERE / "kernels.cu")], timeout_s=120)
    finish([*nvcc, "-shared", "-Xcompiler", "-fPIC", "-o", str(folder / "candidate.so"), str(HERE / "candidate.cu")], timeout_s=120)
    for name in ("runner.py", "slot.py", "driver.py"):
        shutil.copy(HERE / name, folder)


def circumstances(seed: int) -> Found:
    """What a number without which says nothing."""
    query = "name,driver_version,memory.total,clocks.sm,clocks.mem,temperature.gpu"
    versions = "import torch, triton, json; print(json.dumps({'torch': torch.__version__, 'triton': triton.__version__}))"
    nvcc = finish([shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc", "--version"], timeout_s=30)
    return {
        "schema": "evokern.gpu-look/1",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": dict(
            zip(
                query.split(","),
                finish(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], timeout_s=30).strip().split(", "),
                strict=False,
            )
        ),
        "machine": {"kernel": os.uname().release, "cores": os.cpu_count(), "uid": os.getuid()},
        "versions": {
            "python": sys.version.split()[0],
            "nvcc": re.findall(r"release ([\d.]+)", nvcc)[0],
            **json.loads(finish([sys.executable, "-c", versions], timeout_s=90)),
        },
        "command": "python benchmarks/gpu_look/look.py --out DIR",
        "seed": seed,
    }


def main() -> None:
    """Build once, then run every section in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(SECTIONS), choices=list(SECTIONS))
    parser.add_argument("--section", choices=list(SECTIONS), help=argparse.SUPPRESS)
    parser.add_argument("--built", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.section:
        (arguments.out).write_text(json.dumps(SECTIONS[arguments.section](arguments.built, arguments.seed)))
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    found = circumstances(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        build(Path(name))
        for section in arguments.only:
            began = time.monotonic()
            answer = Path(name) / f"{section}.json"
            command = [sys.executable, __file__, "--out", str(answer), "--section", section, "--built", name, "--seed", str(arguments.seed)]
            try:
                finish(command, timeout_s=LIMIT_S)
                found[section] = json.loads(answer.read_text())
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                found[section] = {"error": str(error)}
            found[section]["seconds"] = round(time.monotonic() - began, 1)
            sys.stdout.write(f"{section}: {json.dumps(found[section])[:1500]}\n")
            sys.stdout.flush()
            (arguments.out / "gpu-look.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
