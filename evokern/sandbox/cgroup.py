"""Control groups, version 1 or 2: limits, clock, freezer and kill for a whole slot.

Every `Spawner` has one parent folder per hierarchy, named after the judge's process, and each slot a folder below it.
Which controllers are there and writable differs between machines; each is used on its own, and what is missing is
replaced in `slot` (signals, process clock) or `zygote` (rlimits).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from evokern.sandbox import process
from evokern.sandbox.limits import Limits

FREEZE_SECONDS = 5.0
"""Longest wait for a freeze; a task in an uninterruptible call delays it."""

_PREFIX = "evokern-"
_V1_WANTED = ("memory", "pids", "cpuacct", "freezer", "cpuset")
_V2_WANTED = ("memory", "pids", "cpuset")
_V2_LIMITS = {"memory", "pids"}
_LEAF = "evokern.others"  # not of the form of a parent folder's name
_ROUNDS = 16


class Group(ABC):
    """The cgroup of one slot.

    Attributes:
        procs: Files that a process writes "0" to in order to join.
        limits_memory: Whether the memory limit is enforced here.
        limits_processes: Whether the process limit is enforced here.
        limits_cpus: Whether processors can be fixed here, so that a process cannot take more.
        has_clock: Whether `cpu_ns` works.
        has_freezer: Whether `freeze` and `thaw` work.
    """

    procs: tuple[str, ...]
    limits_memory: bool
    limits_processes: bool
    limits_cpus: bool
    has_clock: bool
    has_freezer: bool

    @abstractmethod
    def cpu_ns(self) -> int:
        """CPU time of all that ever ran in it, nanoseconds."""

    @abstractmethod
    def freeze(self) -> None:
        """Stop everything in it; returns when nothing runs any more."""

    @abstractmethod
    def thaw(self) -> None:
        """Let everything in it go on."""

    @abstractmethod
    def out_of_memory(self) -> bool:
        """Whether the memory limit killed something in it."""

    @abstractmethod
    def too_many_processes(self) -> bool:
        """Whether the process limit refused a fork."""

    @abstractmethod
    def pids(self) -> set[int]:
        """Processes in it."""

    @abstractmethod
    def kill(self) -> None:
        """Send SIGKILL to everything in it, frozen or not."""

    @abstractmethod
    def remove(self) -> None:
        """Close its files and remove its folders; it must be empty."""


class Hierarchy(ABC):
    """Where one spawner's groups are made.

    Attributes:
        folders: The parent folders that this spawner owns.
    """

    folders: tuple[Path, ...]

    @abstractmethod
    def group(self, name: str, limits: Limits) -> Group:
        """A new group below the parent.

        Raises:
            OSError: The kernel refused the folder or a limit.
        """

    def close(self) -> None:
        """Remove the parent folders; their groups must be gone."""
        for folder in self.folders:
            remove_tree(folder)


def find() -> Hierarchy | None:
    """The hierarchy that this process may use, or None: version 1 where its controllers are writable, else version 2."""
    mounts = _mounts()
    return _VersionOne.find(mounts) or _VersionTwo.find(mounts)


def remove_tree(folder: Path) -> None:
    """Remove a cgroup folder and the empty groups below it; one that is in use stays."""
    with contextlib.suppress(OSError):
        for child in [entry for entry in folder.iterdir() if entry.is_dir()]:
            remove_tree(child)
        folder.rmdir()


def kill_tree(folder: Path) -> int:
    """SIGKILL every process in the groups below a folder, and thaw what is frozen.

    Returns:
        How many there were.
    """
    count = 0
    with contextlib.suppress(OSError):
        for child in [entry for entry in folder.iterdir() if entry.is_dir()]:
            pids = _read_pids(child / "cgroup.procs")
            count += len(pids)
            _kill(pids)
            for name, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
                with contextlib.suppress(OSError):
                    _write(child / name, value)
    return count


class _VersionOne(Hierarchy):
    def __init__(self, parents: dict[str, Path]) -> None:
        self._parents = parents
        self.folders = tuple(dict.fromkeys(parents.values()))

    @classmethod
    def find(cls, mounts: Sequence[tuple[str, Path]]) -> _VersionOne | None:
        name, parents = _own_name(), {}
        for controllers, folder in mounts:
            wanted = [controller for controller in _V1_WANTED if controller in controllers.split(",")]
            if wanted and _claim(folder, name, cpuset="cpuset" in wanted):
                parents.update(dict.fromkeys(wanted, folder / name))
        return cls(parents) if parents else None

    def group(self, name: str, limits: Limits) -> Group:
        return _GroupOne(self._parents, name, limits)


class _GroupOne(Group):
    def __init__(self, parents: dict[str, Path], name: str, limits: Limits) -> None:
        self._folders = {controller: parent / name for controller, parent in parents.items() if controller != "cpuset" or limits.cpus}
        self._files: dict[str, int] = {}
        self.limits_memory, self.limits_processes, self.limits_cpus = "memory" in parents, "pids" in parents, "cpuset" in parents
        self.has_clock, self.has_freezer = "cpuacct" in parents, "freezer" in parents
        try:
            self._make(limits)
        except OSError:
            self.remove()
            raise
        self.procs = tuple(str(folder / "cgroup.procs") for folder in dict.fromkeys(self._folders.values()))

    def _make(self, limits: Limits) -> None:
        for folder in dict.fromkeys(self._folders.values()):
            folder.mkdir()
        if self.limits_memory:
            self._set("memory", "memory.limit_in_bytes", limits.memory_bytes)
            with contextlib.suppress(OSError):  # absent where the kernel does not account swap
                self._set("memory", "memory.memsw.limit_in_bytes", limits.memory_bytes)
            self._open("memory", "memory.oom_control", os.O_RDONLY)
        if self.limits_processes:
            self._set("pids", "pids.max", limits.processes)
            self._open("pids", "pids.events", os.O_RDONLY)
        if "cpuset" in self._folders:
            _fill_cpuset(self._folders["cpuset"], ",".join(str(cpu) for cpu in limits.cpus))
        if self.has_clock:
            self._open("cpuacct", "cpuacct.usage", os.O_RDONLY)
        if self.has_freezer:
            self._open("freezer", "freezer.state", os.O_RDWR)

    def _set(self, controller: str, name: str, value: int) -> None:
        _write(self._folders[controller] / name, str(value))

    def _open(self, controller: str, name: str, flags: int) -> None:
        self._files[name] = os.open(self._folders[controller] / name, flags | os.O_CLOEXEC)

    def cpu_ns(self) -> int:
        return int(os.pread(self._files["cpuacct.usage"], 32, 0))

    def freeze(self) -> None:
        state = self._files["freezer.state"]
        os.pwrite(state, b"FROZEN", 0)
        _wait_until(lambda: os.pread(state, 16, 0) == b"FROZEN\n")

    def thaw(self) -> None:
        os.pwrite(self._files["freezer.state"], b"THAWED", 0)

    def out_of_memory(self) -> bool:
        return self.limits_memory and _counter(os.pread(self._files["memory.oom_control"], 256, 0), b"oom_kill") > 0

    def too_many_processes(self) -> bool:
        return self.limits_processes and _counter(os.pread(self._files["pids.events"], 256, 0), b"max") > 0

    def pids(self) -> set[int]:
        return set().union(*(_read_pids(Path(file)) for file in self.procs))

    def kill(self) -> None:
        _kill(self.pids())
        if self.has_freezer:
            self.thaw()  # a task frozen by version 1 dies only when thawed

    def remove(self) -> None:
        _close_all(self._files)
        for folder in dict.fromkeys(self._folders.values()):
            _remove_when_empty(folder)


class _VersionTwo(Hierarchy):
    def __init__(self, parent: Path, controllers: frozenset[str], crowded: Path | None = None) -> None:
        self._parent, self._controllers, self._crowded = parent, controllers, crowded
        self.folders = (parent,)

    @classmethod
    def find(cls, mounts: Sequence[tuple[str, Path]]) -> _VersionTwo | None:
        for controllers, own in mounts:
            folders = [] if controllers else list(_upwards(own))
            # The nearest of those that pass on most; one that holds processes passes nothing on, unless it is the root.
            passed: dict[Path, frozenset[str]] = {}
            for folder in folders:
                passed[folder] = _passed_on(folder)
                if passed[folder] == set(_V2_WANTED):
                    break
            best = sorted(passed, key=lambda folder: -len(passed[folder]))
            crowded = None
            if best and not passed[best[0]] >= _V2_LIMITS and _make_room(own):
                best, crowded = [own, *best], own
            for folder in best:
                made = cls.below(folder, crowded)
                if made:
                    return made
            if crowded is not None:
                _give_room_back(crowded)
        return None

    @classmethod
    def below(cls, folder: Path, crowded: Path | None = None) -> _VersionTwo | None:
        """A parent in this folder with whatever controllers can be passed down; None where it cannot be made.

        Args:
            folder: Where.
            crowded: A folder whose processes were moved for this (`_make_room`), to be undone at the end.
        """
        name = _own_name()
        _passed_on(folder)
        if not _claim(folder, name, cpuset=False):
            return None
        parent = folder / name
        return cls(parent, _passed_on(parent), crowded)

    def close(self) -> None:
        """As of all; and processes that were moved go back."""
        super().close()
        if self._crowded is not None:
            _give_room_back(self._crowded)

    def group(self, name: str, limits: Limits) -> Group:
        return _GroupTwo(self._parent / name, self._controllers, limits)


class _GroupTwo(Group):
    def __init__(self, folder: Path, controllers: frozenset[str], limits: Limits) -> None:
        self._folder, self._files = folder, dict[str, int]()
        self.procs = (str(folder / "cgroup.procs"),)
        self.limits_memory, self.limits_processes = "memory" in controllers, "pids" in controllers
        self.limits_cpus = "cpuset" in controllers
        folder.mkdir()
        try:
            self._make(limits, controllers)
        except OSError:
            self.remove()
            raise
        self.has_clock, self.has_freezer = "cpu.stat" in self._files, "cgroup.freeze" in self._files

    def _make(self, limits: Limits, controllers: frozenset[str]) -> None:
        if self.limits_memory:
            _write(self._folder / "memory.max", str(limits.memory_bytes))
            with contextlib.suppress(OSError):  # absent where the kernel does not account swap
                _write(self._folder / "memory.swap.max", "0")
        if self.limits_processes:
            _write(self._folder / "pids.max", str(limits.processes))
        if "cpuset" in controllers and limits.cpus:
            _write(self._folder / "cpuset.cpus", ",".join(str(cpu) for cpu in limits.cpus))
        for name, flags in (("cpu.stat", os.O_RDONLY), ("cgroup.freeze", os.O_WRONLY), ("cgroup.events", os.O_RDONLY)):
            with contextlib.suppress(OSError):
                self._files[name] = os.open(self._folder / name, flags | os.O_CLOEXEC)

    def cpu_ns(self) -> int:
        return _counter(os.pread(self._files["cpu.stat"], 1024, 0), b"usage_usec") * 1000

    def freeze(self) -> None:
        os.pwrite(self._files["cgroup.freeze"], b"1", 0)
        _wait_until(lambda: _counter(os.pread(self._files["cgroup.events"], 128, 0), b"frozen") == 1)

    def thaw(self) -> None:
        os.pwrite(self._files["cgroup.freeze"], b"0", 0)

    def out_of_memory(self) -> bool:
        return self.limits_memory and _counter(_read(self._folder / "memory.events").encode(), b"oom_kill") > 0

    def too_many_processes(self) -> bool:
        return self.limits_processes and _counter(_read(self._folder / "pids.events").encode(), b"max") > 0

    def pids(self) -> set[int]:
        return _read_pids(self._folder / "cgroup.procs")

    def kill(self) -> None:
        try:
            _write(self._folder / "cgroup.kill", "1")
        except OSError:  # before Linux 5.14
            _kill(self.pids())

    def remove(self) -> None:
        _close_all(self._files)
        _remove_when_empty(self._folder)


def _mounts() -> list[tuple[str, Path]]:
    """(controllers, own folder) of every cgroup mount; no controllers for version 2."""
    own = {}
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        own[controllers] = path
    found = []
    for line in _read(Path("/proc/self/mountinfo")).splitlines():
        fields, _, rest = line.partition(" - ")
        root, point = fields.split()[3:5]
        kind, _, options = rest.split(" ", 2)
        if kind == "cgroup2" and "" in own:
            found.append(("", _inside(Path(point), root, own[""])))
        elif kind == "cgroup":
            for controllers, path in own.items():
                if controllers and set(controllers.split(",")) <= set(options.split(",")):
                    found.append((controllers, _inside(Path(point), root, path)))
    return found


def _inside(point: Path, root: str, path: str) -> Path:
    # A container may be shown a part of the hierarchy only: `root` is the part that is mounted at `point`.
    return point / os.path.relpath(path, root) if path.startswith(root.rstrip("/") + "/") else point


def _passed_on(folder: Path) -> frozenset[str]:
    """The wanted controllers that a folder of version 2 passes on to those below it, after it was asked to pass on all.

    One that holds processes and is not the root is not asked: it would pass on some and not others.
    """
    try:
        is_root = not (folder / "cgroup.type").exists()
        if is_root or not _read(folder / "cgroup.procs").strip():
            for controller in _V2_WANTED:
                with contextlib.suppress(OSError):
                    _write(folder / "cgroup.subtree_control", f"+{controller}")
        return frozenset(_read(folder / "cgroup.subtree_control").split()) & frozenset(_V2_WANTED)
    except OSError:
        return frozenset()


def _make_room(folder: Path) -> bool:
    """Move the processes of a folder into a leaf below it, as version 2 wants before a folder other than the root passes on controllers.

    Such a folder is what a container sees as its root: its processes lie in it, and whoever starts more finds them in the leaf.

    Returns:
        Whether the folder then passes on what limits a slot; if not, all is as it was.
    """
    try:
        offered = set(_read(folder / "cgroup.controllers").split())
        if not offered >= _V2_LIMITS or not (folder / "cgroup.type").exists():  # the root has no type, and needs no room
            return False
        (folder / _LEAF).mkdir(exist_ok=True)
    except OSError:
        return False
    _move_all(folder, folder / _LEAF)
    if _passed_on(folder) >= _V2_LIMITS:
        return True
    _give_room_back(folder)
    return False


def _give_room_back(folder: Path) -> None:
    """Undo `_make_room`; nothing where somebody else still limits processes below the folder."""
    with contextlib.suppress(OSError):
        for controller in _read(folder / "cgroup.subtree_control").split():
            if controller in _V2_WANTED:
                _write(folder / "cgroup.subtree_control", f"-{controller}")
        _move_all(folder / _LEAF, folder)
        (folder / _LEAF).rmdir()


def _move_all(source: Path, target: Path) -> None:
    for _ in range(_ROUNDS):  # what is moved may fork meanwhile
        pids = _read_pids(source / "cgroup.procs")
        for pid in pids:
            with contextlib.suppress(OSError):
                _write(target / "cgroup.procs", str(pid))
        if not pids:
            return


def _upwards(own: Path) -> Iterator[Path]:
    for folder in (own, *own.parents):
        if not (folder / "cgroup.procs").exists():
            return
        yield folder


def _own_name() -> str:
    return f"{_PREFIX}{os.getpid()}-{process.start_time(os.getpid())}-{secrets.token_hex(4)}"


def _claim(folder: Path, name: str, *, cpuset: bool) -> bool:
    """Make the parent in a folder, after removing those of judges that are gone."""
    with contextlib.suppress(OSError, ValueError):
        for entry in folder.glob(f"{_PREFIX}*"):
            _, pid, start, _ = entry.name.split("-")
            if process.start_time(int(pid)) != start:
                remove_tree(entry)
    try:
        (folder / name).mkdir()
        if cpuset:
            _fill_cpuset(folder / name, _read(folder / "cpuset.cpus").strip())
    except OSError:
        with contextlib.suppress(OSError):
            (folder / name).rmdir()
        return False
    return True


def _fill_cpuset(folder: Path, cpus: str) -> None:
    # Version 1 takes no process before both files are filled.
    _write(folder / "cpuset.cpus", cpus)
    _write(folder / "cpuset.mems", _read(folder.parent / "cpuset.mems").strip())


def _wait_until(reached: Callable[[], bool]) -> None:
    if reached():
        return
    deadline = time.monotonic() + FREEZE_SECONDS
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing stopped within {FREEZE_SECONDS} s")
        time.sleep(20e-6)


def _counter(text: bytes, name: bytes) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return int(value)
    return 0


def _remove_when_empty(folder: Path) -> None:
    # The last process may be dead and not yet taken off the group.
    deadline = time.monotonic() + FREEZE_SECONDS
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(1e-3)
        else:
            return


def _kill(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _read_pids(file: Path) -> set[int]:
    try:
        return {int(pid) for pid in _read(file).split()} - {0}
    except OSError:
        return set()


def _read(file: Path) -> str:
    with open(file, encoding="utf-8") as stream:
        return stream.read()


def _write(file: Path, value: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def _close_all(files: dict[str, int]) -> None:
    for descriptor in files.values():
        os.close(descriptor)
    files.clear()
