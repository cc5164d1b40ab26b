"""A source with a history, a late file, a new one and a doubled event; and all who work on it at once: two collectors,
two sweepers of which one knows only an old state, two jobs, and perhaps somebody who deletes the manifest. The
product's own code, over storage and a table in memory.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any
from unittest.mock import patch

from blizzard.errors import BlizzardError, StorageUnavailable
from blizzard.ledger import keeper
from blizzard.ledger.merge import LedgerSettings
from blizzard.ledger.settled_files import SettledFiles
from blizzard.log import silent
from blizzard.manifest.pending_manifest import Manifest
from blizzard.state.checkpoint import Checkpoint, decode
from blizzard.state.checkpoint_codec import read_copy
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.identity import SourceIdentity
from blizzard.state.watermark import SourceProgress
from blizzard.storage.memory import MemoryStore
from blizzard.sweep.sweeper import Sweeper
from spark_job.loop.files.ingest_files import ingest_files
from spark_job.ports.stopwatch import Stopwatch
from tests.proof.interleavings.calls import ALL, COPY, LETTERS, PENDING, RECEIPTS, RUNS, TABLE, Remote
from tests.proof.interleavings.processes import Process, Worker
from tests.proof.interleavings.world import Broken
from tests.unit import fakes
from tests.unit.fakes import POISON, REFUSED, Calls, MemoryDelta, MemoryReader, MemoryTable, World


@dataclass(frozen=True, slots=True)
class Files:
    """`known` is in the table from the beginning; `late` is below its watermark and not in the table; `new` is above
    it, with a record that does not parse; `bad` cannot be read."""

    known: str
    late: str
    new: str
    bad: str
    older: str
    """In the table even before, where the ledger is merged: so there are two runs to merge."""


FLAT = Files("b.txt", "a.txt", "c.txt", "d.txt", "aa.txt")
IN_FOLDERS = Files("day=2/b.txt", "day=2/a.txt", "day=1/c.txt", "day=3/d.txt", "day=2/aa.txt")
"""Each folder has its own watermark. The new file is in one that sorts before."""
MERGED = LedgerSettings(commits=1, files=1, factor=2, in_background=False, parallel_reads=1)
PLAIN_OVERLAP_SECS, LATE_OVERLAP_SECS = 100.0, 10.0
"""By which a late sweep looks further back than the one before began. Where one is at work among the others, the files
are older than that: what it says that it has seen no other one looks for again."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which processes there are, and whether there is a bad file, too. The first sweeper knows the state as it is now,
    all others an old one; `stale`: the first one, too."""

    collectors: int = 2
    sweepers: int = 2
    jobs: int = 2
    wipers: int = 0
    bad: bool = False
    stale: bool = False
    interval_files: int = 2
    late: int = 0
    """Late sweepers, which list the whole source."""
    folders: bool = False
    """The files are in folders."""
    merged: bool = False
    """The ledger is merged at each commit, and what was merged is deleted at once."""

    @property
    def files(self) -> Files:
        return IN_FOLDERS if self.folders else FLAT

    def __str__(self) -> str:
        more = (
            f", {self.late} late sweepers" if self.late else "",
            ", somebody who deletes the manifest" if self.wipers else "",
            ", a bad file" if self.bad else "",
            ", in folders" if self.folders else "",
            ", a merged ledger" if self.merged else "",
        )
        sweepers = f"{self.sweepers} {'stale ' if self.stale else ''}sweepers"
        return f"{self.collectors} collectors, {sweepers}, {self.jobs} jobs{''.join(more)}"


@contextmanager
def ledger_of(bounds: Bounds) -> Iterator[None]:
    """While a world with these bounds is explored."""
    with patch.object(keeper, "KEPT_SECS", -1.0 if bounds.merged else keeper.KEPT_SECS):
        yield


@cache
def _history(bounds: Bounds) -> World:
    """A file that is committed and below the watermark; then the others come."""
    overlap_secs = LATE_OVERLAP_SECS if bounds.late else PLAIN_OVERLAP_SECS
    ledger = MERGED if bounds.merged else None
    settings = fakes.settings(interval_files=bounds.interval_files, late_overlap_secs=overlap_secs, ledger=ledger)
    world = World(settings, tick_secs=0.0)
    wait_secs = world.settings.sweep_rules.settle_delay_secs + 1
    files = bounds.files
    if bounds.merged:
        world.put(files.older, "0")
        world.sweep()
        world.drain()
    world.put(files.known, "b0", "b1")
    world.sweep()
    world.drain()
    world.clock.advance(wait_secs)
    world.sweep()
    world.drain()
    world.put(files.late, "a0")
    world.put(files.new, "c0", f"{REFUSED}c1")
    if bounds.bad:
        world.put(files.bad, raw=POISON)
    world.clock.advance(wait_secs)
    return world


class SmallWorld:
    """`harm` may change the parts before anybody moves."""

    checked = TABLE | LETTERS

    def __init__(self, bounds: Bounds, harm: "Callable[[SmallWorld], object]" = lambda world: None) -> None:
        self._bounds, self._before = bounds, _history(bounds)
        self.identity: SourceIdentity = self._before.identity
        self._memory = MemoryStore(fakes.Clock(self._before.clock.now_ts), self._before.state.uri)
        _fill(self._memory, self._before.state)
        self.delta = MemoryDelta([*self._before.delta.commits], [*self._before.delta.rows])
        self.state: Any = self._memory
        self.table: Any = MemoryTable(self.delta, self.identity, Calls())
        """These two are what the calls are made to."""
        self.around_job: Callable[[Remote, Remote], tuple[Any, Any]] = lambda table, letters: (table, letters)
        """What a job makes of the table and of the store of its letters."""
        harm(self)
        files = bounds.files
        self._open = {path for path, _ in self._before.contents} - {files.known, files.late, files.older}
        """What no watermark may pass before it is in the table, or has a letter."""
        self._collected = {"collector 1": (files.late, files.new), "collector 2": (files.known, files.late)}
        self.workers = [
            *(self._worker(f"collector {n + 1}", self._collect, PENDING) for n in range(bounds.collectors)),
            *(
                self._worker(
                    f"sweeper {n + 1}", partial(self._sweep, bounds.stale or n > 0), PENDING, COPY | RECEIPTS | RUNS
                )
                for n in range(bounds.sweepers)
            ),
            *(
                self._worker(
                    f"late sweeper {n + 1}", partial(self._late_sweep, bounds.stale), PENDING, COPY | RECEIPTS | RUNS
                )
                for n in range(bounds.late)
            ),
            *(self._worker(f"job {n + 1}", self._drain, ALL) for n in range(bounds.jobs)),
            *(self._worker("somebody", self._wipe, PENDING) for _ in range(bounds.wipers)),
        ]
        self.heeded = frozenset(worker.name for worker in self.workers if worker.name in self._collected)

    def replace_delta(self, delta: MemoryDelta) -> None:
        delta.commits, delta.rows = self.delta.commits, self.delta.rows
        self.delta = delta
        self.table = MemoryTable(delta, self.identity, Calls())

    # -- who works

    @staticmethod
    def _worker(name: str, work: Callable[[Process], object], writes: int, reads: int = 0) -> Worker:
        return Worker(name, work, reads | writes, writes)

    def _collect(self, process: Process) -> None:
        """Until it has succeeded: the queue keeps a message that was not collected, and delivers it again."""
        events = [self._before.source_event(path) for path in self._collected[process.name]]
        appended = False
        while not appended:
            with suppress(StorageUnavailable):
                self._manifest(process).append(events, writer_id=process.name, now_ts=self._before.clock())
                appended = True

    def _sweep(self, stale: bool, process: Process) -> None:
        """One that storage breaks off is over: others come."""
        with suppress(StorageUnavailable):
            known = self._known(stale, process)
            self._sweeper(known, process).watermark_sweep(self._settled(known, process).unsettled_paths)

    def _late_sweep(self, stale: bool, process: Process) -> None:
        with suppress(StorageUnavailable):
            known = self._known(stale, process)
            self._sweeper(known, process).late_sweep(self._settled(known, process).unsettled)

    def _settled(self, known: Checkpoint, process: Process) -> SettledFiles:
        return SettledFiles(Remote(process, "state"), self.identity, known, silent, parallel=1)  # type: ignore[arg-type]

    def _known(self, stale: bool, process: Process) -> Checkpoint:
        unknown = self._before.unknown()
        return unknown if stale else read_copy(Remote(process, "state"), self.identity) or unknown  # type: ignore[arg-type]

    def _sweeper(self, known: Checkpoint, process: Process) -> Sweeper:
        return Sweeper(
            self._before.source,
            self._manifest(process),
            known,
            self._before.settings.sweep_rules,
            clock=self._before.clock,
            writer_id=process.name,
        )

    def _drain(self, process: Process) -> None:
        ids = (f"{process.name.replace(' ', '')}-{number}" for number in range(1000))
        state, identity = Remote(process, "state"), self.identity
        table, letters = self.around_job(Remote(process, "table"), state)
        ingest_files(
            identity,
            self._before.settings,
            table=table,
            reader=MemoryReader(
                self._before.source,
                DeadLetters(letters, identity.state_prefix, identity.source_id),
                identity.source_id,
                self._before.clock,
                Calls(),
            ),
            state=state,  # type: ignore[arg-type]
            files=self._before.source,
            clock=self._before.clock,
            watch=Stopwatch(lambda: 0.0),
            new_id=lambda: next(ids),
            sleep=lambda secs: None,
            log=lambda event, /, **fields: None,
        ).drain()

    def _wipe(self, process: Process) -> None:
        state = Remote(process, "state")
        for info in state.list(f"{self.identity.state_prefix}/pending/"):
            with suppress(StorageUnavailable):
                state.delete([info.key])

    def _manifest(self, process: Process) -> Manifest:
        return Manifest(Remote(process, "state"), self.identity.state_prefix, self.identity.source_id)  # type: ignore[arg-type]

    # -- what is shared

    def keep(self) -> tuple[Hashable, Any]:
        commits, rows, faults = tuple(self.delta.commits), tuple(self.delta.rows), tuple(self.delta.faults)
        objects = dict(self._memory._objects)
        names = tuple((key, objects[key][0].etag) for key in self._memory._keys)
        log = tuple((tuple(sorted(commit.txns.items())), commit.user_metadata) for commit in commits)
        kept = objects, tuple(self._memory._keys), commits, rows, faults
        return (names, log, rows, faults), kept

    def restore(self, kept: Any) -> None:
        objects, keys, commits, rows, faults = kept
        self._memory._objects, self._memory._keys = dict(objects), [*keys]
        self.delta.commits[:] = commits
        self.delta.rows = [*rows]
        self.delta.faults[:] = faults

    # -- what must hold

    def check(self) -> None:
        """In every state: nothing doubled, each commit's state goes with its rows, and no watermark passes a file that
        is neither in the table nor dead-lettered."""
        counted = self._once()
        texts = self._texts()
        sequences = [self._decoded(text).sequence for text in texts]
        if sequences != [*range(len(sequences))]:
            raise Broken(f"expected the commits' sequences to count from 0, found {sequences}")
        claimed = {row.sequence for row in self.delta.rows}
        if not claimed <= {*sequences}:
            raise Broken(f"rows of {claimed - {*sequences}}, of which there is no commit")
        for path in self._open - {path for path, _ in counted}:
            if self._covered(texts[-1], path) and path not in self._letters():
                raise Broken(
                    f"lost: the watermark of commit {sequences[-1]} is at or above {path}, which is not in the table"
                )

    def _once(self) -> list[tuple[str, int]]:
        """The records of the table."""
        counted = [(row.path, row.row) for row in self.delta.rows]
        if len(counted) != len(set(counted)):
            raise Broken(f"doubled: {sorted({record for record in counted if counted.count(record) > 1})}")
        return counted

    def _texts(self) -> list[str]:
        """The states that were committed."""
        return [commit.user_metadata or "" for commit in self.delta.commits if commit.txns]

    @staticmethod
    @lru_cache(100_000)
    def _decoded(text: str) -> Checkpoint:
        try:
            return decode(text, pipeline="events", source="landing")
        except BlizzardError as error:
            raise Broken(f"a commit's state cannot be read: {error}") from error

    def _covered(self, text: str, path: str) -> bool:
        return SourceProgress.from_checkpoint(self._decoded(text), self._before.settings.rules.folder_of).is_settled(
            path
        )

    def _letters(self) -> set[str]:
        """Files that were dead-lettered as a whole."""
        letters = DeadLetters(self._memory, self.identity.state_prefix, self.identity.source_id).letters()
        return {letter["path"] for letter in letters if "row" not in letter}

    def finish(self, ended: frozenset[str]) -> None:
        """A job: every file that was announced is in the table, if nobody deleted its segment. One more sweep of each
        kind, and a job: every record of every file is in the table once, or has a letter."""
        try:
            self._finish({self._bounds.files.known}.union(*(self._collected[name] for name in ended)))
        except BlizzardError as error:
            raise Broken(f"after the end nobody can go on: {error}") from error

    def _finish(self, announced: set[str]) -> None:
        world = World(self._before.settings, tick_secs=0.0)
        _fill(world.source, self._before.source)
        _fill(world.state, self._memory)
        world.clock.now_ts = self._before.clock.now_ts
        world.delta = self.delta
        world.drain()
        self._once()
        missing = announced - world.files().keys()
        if missing and not self._bounds.wipers:
            raise Broken(f"announced, and after a job not in the table: {sorted(missing)}")
        world.settle()
        self._compare(world)
        _fill(self._memory, world.state)
        self.check()
        if read_copy(world.state, self.identity) != self._decoded(self._texts()[-1]):
            raise Broken("the copy beside the table is not the newest checkpoint")
        self._go_on(world)

    def _go_on(self, world: World) -> None:
        """One more file: its commit trims all that was consumed before. After the manifest began again it may take
        another one, since a job trims when its position moves."""
        for path in ("y.txt", "z.txt") if self._bounds.wipers else ("z.txt",):
            world.arrive(path, path)
            world.drain()
            if world.files().get(path) != [path]:
                raise Broken(f"after the end {path} came, and is not in the table")
        if len(world.segments()) != 1:
            raise Broken(f"the manifest was not trimmed: segments {world.segments()}")

    def _compare(self, world: World) -> None:
        """Every record of every file: in the table, or dead-lettered with its file or alone."""
        rows: dict[str, list[str]] = {}
        records: dict[str, list[int]] = {}
        files: set[str] = set()
        for (path, _), content in sorted(self._before.contents.items()):
            if content.startswith(POISON):
                files.add(path)
                continue
            lines = content.decode().split()
            rows[path] = [line for line in lines if not line.startswith(REFUSED)]
            if refused := [number for number, line in enumerate(lines) if line.startswith(REFUSED)]:
                records[path] = refused
        if world.files() != rows:
            raise Broken(f"after the last sweep: expected {rows}, found {world.files()}")
        if (world.dead_files().keys(), world.dead_records()) != (files, records):
            raise Broken(
                f"silent: expected letters of {sorted(files)} and of records {records}, "
                f"found {world.dead_files()} and {world.dead_records()}"
            )


def _fill(store: MemoryStore, other: MemoryStore) -> None:
    store._objects, store._keys = dict(other._objects), [*other._keys]
