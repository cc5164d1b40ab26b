"""Memory and CPU use of a process tree, from /proc."""

import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.machine import TICKS, busy_secs

INTERVAL_SECS = 0.2
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """`peak_bytes`: resident memory of all processes at the highest sample; shared pages count for each process.
    `cpu_secs`: CPU time of all processes, the larger of the sampled sum and what parents counted for ended
    children: sampling misses the last part of a process that ends. `others_share`: share of the cores that other
    processes used."""

    peak_bytes: int
    peak_java_bytes: int
    peak_python_bytes: int
    cpu_secs: float
    others_share: float


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    name: str
    cpu_secs: float
    resident_bytes: int
    waited_cpu_secs: float
    """CPU time of ended children that were waited for, and of their children."""


class ResourceMonitor:
    """Samples the process `pid` and its descendants until the block ends. `pid` may be this process; its CPU time
    before the block does not count."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._peak = {"all": 0, "java": 0, "python": 0}
        self._cpu: dict[int, float] = {}
        self._family = {pid}

    def __enter__(self) -> Self:
        self._own_before_secs = cpu_secs(self._pid) if self._pid == os.getpid() else 0.0
        self._started, self._busy_secs, self._children_secs = time.monotonic(), busy_secs(), _children_secs()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()
        self._secs, self._all_secs = time.monotonic() - self._started, busy_secs() - self._busy_secs
        self._waited_secs = _children_secs() - self._children_secs

    @property
    def peak_bytes(self) -> int:
        """Up to now."""
        return self._peak["all"]

    def usage(self) -> ResourceUsage:
        """Valid after the block has ended."""
        own_secs = max(sum(self._cpu.values()) - self._own_before_secs, self._waited_secs)
        cores = len(os.sched_getaffinity(0))
        others = max(0.0, self._all_secs - own_secs) / max(self._secs * cores, 1e-9)
        return ResourceUsage(self._peak["all"], self._peak["java"], self._peak["python"], own_secs, others)

    def _run(self) -> None:
        while not self._ending.wait(INTERVAL_SECS):
            self._sample()

    def _sample(self) -> None:
        family = [process for process in _processes() if self._is_ours(process)]
        javas = {process.pid for process in family if process.name == "java"}
        family = [process for process in family if not (process.parent in javas and _is_still_java(process))]
        for process in family:
            self._cpu[process.pid] = process.cpu_secs
        for kind in self._peak:
            total = sum(p.resident_bytes for p in family if kind == "all" or p.name.startswith(kind))
            self._peak[kind] = max(self._peak[kind], total)

    def _is_ours(self, process: _Process) -> bool:
        """Whether its parent is in the tree, or was when it was first seen: orphans stay in it."""
        if process.parent in self._family:
            self._family.add(process.pid)
        return process.pid in self._family


def _is_still_java(process: _Process) -> bool:
    """Whether a child of a JVM has not called exec yet: it shares the JVM's memory, which would count twice."""
    with suppress(OSError):
        return Path(f"/proc/{process.pid}/exe").readlink().name == "java"
    return True  # the process has ended


def _children_secs() -> float:
    """CPU seconds of this process's ended children and their descendants."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_secs(pid: int) -> float:
    """CPU seconds of one process so far, without its children."""
    return _read(Path("/proc", str(pid))).cpu_secs


def tree_cpu_secs(pid: int) -> float:
    """CPU seconds of a process and all its descendants so far, ended ones included."""
    processes = [*_processes()]
    family = [process for process in processes if process.pid == pid]
    for parent in family:
        family += [process for process in processes if process.parent == parent.pid]
    return sum(process.cpu_secs + process.waited_cpu_secs for process in family)


def _processes() -> Iterator[_Process]:
    """By process id, so parents come before their children, unless ids have wrapped around."""
    for folder in sorted((f for f in Path("/proc").iterdir() if f.name.isdigit()), key=lambda f: int(f.name)):
        try:
            yield _read(folder)
        except (FileNotFoundError, ProcessLookupError):
            continue


def _read(folder: Path) -> _Process:
    text = (folder / "stat").read_text()
    name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
    worked_secs = (int(fields[11]) + int(fields[12])) / TICKS
    waited_secs = (int(fields[13]) + int(fields[14])) / TICKS
    return _Process(int(folder.name), int(fields[1]), name, worked_secs, int(fields[21]) * PAGE_BYTES, waited_secs)
