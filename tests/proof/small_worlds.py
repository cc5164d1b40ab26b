"""A source with a history, a late file, a new one and a doubled event; and all who work on it at once: two collectors,
two sweepers of which one knows only an old state, two jobs. The product's own code, over storage and a table in memory.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from blizzard.checkpoint import Checkpoint, decode
from blizzard.dead_letters import DeadLetters
from blizzard.errors import BlizzardError
from blizzard.identity import read_copy
from blizzard.manifest import Entry, Manifest
from blizzard.sweep import Sweeper
from blizzard.watermark import Settling
from spark_job.ingest import Ingest
from spark_job.timing import Stopwatch
from tests.proof.explore import Broken, Process
from tests.unit import fakes
from tests.unit.fakes import MemoryDelta, MemoryReader, MemoryTable, World

KNOWN, LATE, NEW = "b.txt", "a.txt", "c.txt"
"""In the table from the beginning; below the watermark and not in it; above the watermark."""
LOCAL = ("put _blizzard/events_landing/receipts/", "put _blizzard/events_landing/dead_letters/")
"""Objects whose names nobody else uses."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which processes there are."""

    collectors: int = 2
    sweepers: int = 2
    jobs: int = 2
    interval_files: int = 2

    def __str__(self) -> str:
        return f"{self.collectors} collectors, {self.sweepers} sweepers, {self.jobs} jobs"


class Shared:
    """What a process has of something that others use, too: it stops before each call."""

    def __init__(self, target: Any, process: Process, *, name: str = "") -> None:
        self._target = target
        self._process = process
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        return partial(self._call, name, found) if callable(found) else found

    def _call(self, name: str, do: Callable[..., Any], *args: Any, **named: Any) -> Any:
        what = str(args[0]) if args and isinstance(args[0], str) else ""
        call = f"{self._name}{name} {what}".strip()
        if call.startswith(LOCAL):
            return do(*args, **named)
        answer = self._process.shares(call, lambda: _whole(do(*_fixed(args), **named)))
        return iter(answer) if isinstance(answer, tuple) else answer


def _fixed(args: Iterable[Any]) -> list[Any]:
    return [list(arg) if isinstance(arg, Iterator) else arg for arg in args]


def _whole(answer: Any) -> Any:
    """A listing is one answer, as it is on S3 up to 1,000 objects."""
    return tuple(answer) if isinstance(answer, Iterator) else answer


def _begun(interval_files: int) -> World:
    world = World(fakes.settings(interval_files=interval_files), tick_secs=0.0)
    before = _history(interval_files)
    for mine, theirs in ((world.source, before.source), (world.state, before.state)):
        mine._objects, mine._keys = dict(theirs._objects), list(theirs._keys)
    world.delta.commits += before.delta.commits
    world.delta.rows += before.delta.rows
    world.delta.ever_committed += before.delta.ever_committed
    world.contents |= before.contents
    world.clock.now_ts = before.clock.now_ts
    return world


@cache
def _history(interval_files: int) -> World:
    """A file that is committed and below the watermark; then the other two come."""
    world = World(fakes.settings(interval_files=interval_files), tick_secs=0.0)
    wait_secs = world.settings.sweep_rules.settle_delay_secs + 1
    world.put(KNOWN, "b0", "b1")
    world.sweep()
    world.drain()
    world.clock.advance(wait_secs)
    world.sweep()
    world.drain()
    world.put(LATE, "a0")
    world.put(NEW, "c0", "c1")
    world.clock.advance(wait_secs)
    return world


class SmallWorld:
    """Made anew for each way. `harm` may change the parts before anybody moves."""

    def __init__(self, bounds: Bounds, harm: "Callable[[SmallWorld], object]" = lambda world: None) -> None:
        self.world = _begun(bounds.interval_files)
        self.state: Any = self.world.state
        self.delta: MemoryDelta = self.world.delta
        self.stale = self.world.unknown()
        self._announced = {KNOWN}
        """Of collectors that came to their end."""
        harm(self)
        events = {path: self.world.source_event(path) for path in (LATE, KNOWN, NEW)}
        collected = ([events[LATE], events[KNOWN]], [events[NEW], events[LATE]])
        workers: list[tuple[str, Callable[[Process], object]]] = [
            *((f"collector {n + 1}", partial(self._collect, collected[n])) for n in range(bounds.collectors)),
            *((f"sweeper {n + 1}", partial(self._sweep, n > 0)) for n in range(bounds.sweepers)),
            *((f"job {n + 1}", self._drain) for n in range(bounds.jobs)),
        ]
        self.processes = [Process(name, work) for name, work in workers]

    # -- who works

    def _collect(self, events: list[Entry], process: Process) -> None:
        self._manifest(process).append(events, writer_id=process.name, now_ts=self.world.clock())
        self._announced |= {event.path for event in events}

    def _sweep(self, stale: bool, process: Process) -> None:
        state = Shared(self.state, process)
        known = self.stale if stale else read_copy(state, self.world.identity) or self.stale
        Sweeper(
            self.world.source,
            self._manifest(process),
            known,
            self.world.settings.sweep_rules,
            clock=self.world.clock,
            writer_id=process.name,
        ).watermark_sweep()

    def _drain(self, process: Process) -> None:
        ids = (f"{process.name.replace(' ', '')}-{number}" for number in range(1000))
        identity, calls = self.world.identity, fakes.Calls()
        letters = DeadLetters(self.state, identity.state_prefix, identity.source_id)
        Ingest(
            identity,
            self.world.settings,
            table=Shared(MemoryTable(self.delta, identity, calls), process, name="table "),  # type: ignore[arg-type]
            reader=MemoryReader(self.world.source, letters, identity.source_id, self.world.clock, calls),
            state=Shared(self.state, process),  # type: ignore[arg-type]
            source=self.world.source,
            clock=self.world.clock,
            watch=Stopwatch(lambda: 0.0),
            new_id=lambda: next(ids),
            sleep=lambda secs: None,
            log=lambda event, /, **fields: None,
        ).drain()

    def _manifest(self, process: Process) -> Manifest:
        identity = self.world.identity
        return Manifest(Shared(self.state, process), identity.state_prefix, identity.source_id)  # type: ignore[arg-type]

    # -- what must hold

    def shared(self) -> Hashable:
        objects = tuple((info.key, info.etag) for info in self.world.state.list())
        commits = tuple((tuple(sorted(commit.txns.items())), commit.user_metadata) for commit in self.delta.commits)
        return hash((objects, commits, tuple(self.delta.rows)))

    def check(self) -> None:
        """In every state: nothing doubled, each commit's state goes with its rows, and no watermark passes a file that
        is not in the table."""
        if doubled := self.world.doubled():
            raise Broken(f"doubled: {doubled}")
        states = self._states()
        sequences = [state.sequence for state in states]
        if sequences != [*range(len(sequences))]:
            raise Broken(f"expected the commits' sequences to count from 0, found {sequences}")
        claimed = {row.sequence for row in self.delta.rows}
        if not claimed <= {*sequences}:
            raise Broken(f"rows of {claimed - {*sequences}}, of which there is no commit")
        self._check_watermark(states[-1])

    def _check_watermark(self, state: Checkpoint) -> None:
        settling, there = Settling.of(state, self.world.settings.rules.folder_of), self.world.files()
        if settling.covers(NEW) and NEW not in there:
            raise Broken(f"lost: the watermark of commit {state.sequence} is at or above {NEW}, which is not in it")

    def _states(self) -> list[Checkpoint]:
        names = {"pipeline": self.world.identity.pipeline, "source": self.world.identity.source}
        texts = [commit.user_metadata for commit in self.delta.commits if commit.txns]
        return [decode(text or "", **names) for text in texts]

    def finish(self) -> None:
        """A job: every file that was announced is in the table. One more sweep of each kind, and a job: every record of
        every file is in the table once."""
        try:
            self._finish()
        except BlizzardError as error:
            raise Broken(f"after the end nobody can go on: {error}") from error

    def _finish(self) -> None:
        self.world.drain()
        if missing := self._announced - self.world.files().keys():
            raise Broken(f"announced, and after a job not in the table: {sorted(missing)}")
        self.world.settle()
        expected = {path: content.decode().split() for (path, _), content in self.world.contents.items()}
        if self.world.files() != dict(sorted(expected.items())):
            raise Broken(f"after the last sweep: expected {expected}, found {self.world.files()}")
        self.check()
        if self.world.dead_files() or self.world.dead_records():
            raise Broken(f"dead letters for good files: {self.world.dead_files()} {self.world.dead_records()}")
        if read_copy(self.world.state, self.world.identity) != self.world.state_now():
            raise Broken("the copy beside the table is not the newest checkpoint")
        if len(self.world.segments()) > 4:
            raise Broken(f"the manifest was not trimmed: segments {self.world.segments()}")
