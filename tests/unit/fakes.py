"""A Delta table, a reader and a whole source in memory, with the semantics that the ingest loop depends on."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from blizzard.errors import CommitOutcomeUnknown, LostRace, NotFound, UnreadableState
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segment_codec import decode_segment
from blizzard.manifest.segments import Entry, Segment, SegmentRef, Sweep
from blizzard.state.batch import BatchRules, OnOverwrite, PlannedFile
from blizzard.state.checkpoint import Checkpoint, decode
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.state.delta_log import Commit
from blizzard.state.identity import Identity, read_copy
from blizzard.state.receipts import Receipts
from blizzard.state.watermark import no_folder
from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore
from blizzard.storage.memory import MemoryStore
from blizzard.sweep.source_sweep import SourceSweep
from blizzard.sweep.sweeper import Sweeper, SweepReport, SweepRules, Window
from spark_job.loop.ingest import Ingest, Settings, Totals
from spark_job.ports.reader import FailureKind, Outcome, Rows, Txn
from spark_job.ports.stopwatch import Stopwatch

POISON = b"\x00poison"
"""A file that begins with this cannot be decompressed."""
REFUSED = "!"
"""A record that begins with this does not parse."""
DAY_SECS = 1000.0


class Clock:
    """Unix seconds that move when told to, and by `tick_secs` each time they are asked."""

    def __init__(self, now_ts: float = 100_000.0, tick_secs: float = 0.0) -> None:
        self.now_ts = now_ts
        self.tick_secs = tick_secs

    def __call__(self) -> float:
        self.now_ts += self.tick_secs
        return self.now_ts

    def advance(self, secs: float) -> None:
        self.now_ts += secs


class Days:
    """A window of days of DAY_SECS: folders `day=0100` and what lies below them."""

    def folder_of(self, partition: str) -> str | None:
        folder = partition.partition("/")[0]
        return folder if folder.startswith("day=") and folder[4:].isdigit() else None

    def floor(self, now_ts: float, lookback: int) -> str:
        return f"day={int(now_ts // DAY_SECS) - lookback + 1:04d}"


class Crash(BaseException):
    """The process dies here."""


class Calls:
    """Counts calls to storage, table and reader; just before the `n`-th from now, something else may happen."""

    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []
        self.created: list[tuple[str, bytes]] = []
        """Every object that was created, also those that are gone by now."""
        self._planned: dict[int, Callable[[], object]] = {}
        self._named: dict[str, Callable[[], object]] = {}
        self._limit: int | None = None

    def at_most(self, n: int | None) -> None:
        """Fail at the n-th call from now: the work does not come to an end."""
        self._limit = None if n is None else self.count + n

    def before(self, n: int, action: Callable[[], object]) -> None:
        self._planned[self.count + n] = action

    def before_named(self, name: str, action: Callable[[], object]) -> None:
        """Just before the next call of this name."""
        self._named[name] = action

    def forget(self) -> None:
        self._planned.clear()
        self._named.clear()

    def __call__(self, name: str) -> None:
        self.count += 1
        self.names.append(name)
        assert self._limit is None or self.count <= self._limit, f"no end in sight: {self.names[-40:]}"
        action = self._planned.pop(self.count, None) or self._named.pop(name, None)
        if action is not None:
            action()


def crash() -> None:
    raise Crash


class WatchedStore:
    """A store whose every call is counted, and each object of a listing too."""

    def __init__(self, store: ObjectStore, calls: Calls) -> None:
        self._store = store
        self._calls = calls

    @property
    def uri(self) -> str:
        return self._store.uri

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        self._calls(f"list {prefix}")
        for info in self._store.list(prefix, start_after=start_after, recursive=recursive):
            self._calls(f"listed {info.key}")
            yield info

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        self._calls(f"list_folders {prefix}")
        return self._store.list_folders(prefix, start_after=start_after)

    def head(self, key: str) -> ObjectInfo | None:
        self._calls(f"head {key}")
        return self._store.head(key)

    def get(self, key: str) -> bytes:
        self._calls(f"get {key}")
        return self._store.get(key)

    def open(self, key: str) -> AbstractContextManager[ObjectReader]:
        self._calls(f"open {key}")
        return self._store.open(key)

    def create(self, key: str, data: bytes) -> ObjectInfo:
        self._calls(f"create {key}")
        info = self._store.create(key, data)
        self._calls.created.append((key, data))
        return info

    def put(self, key: str, data: bytes) -> ObjectInfo:
        self._calls(f"put {key}")
        return self._store.put(key, data)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._calls(f"delete {key}")
            self._store.delete([key])


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table with its `_source`."""

    source: str
    path: str
    row: int
    etag: str
    value: str
    sequence: int


@dataclass(slots=True)
class MemoryDelta:
    """A Delta table: its commits and the rows that they left.

    `faults` are taken one by one by the commits to come: "lost" raises before anything is written, "answer lost" after
    the commit is in. `before_commit` runs once, between a commit's look at the table and its write.
    """

    commits: list[Commit] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    ever_committed: list[str | None] = field(default_factory=list)
    before_commit: Callable[[], object] | None = None
    loose_files: list[str] = field(default_factory=list)

    def last_txn(self, app_id: str) -> int | None:
        versions = [commit.txns[app_id] for commit in self.commits if app_id in commit.txns]
        return max(versions, default=None)

    def create(self) -> None:
        if not self.commits:
            self.commits.append(Commit(0, {}, None, None))

    def commit(
        self,
        added: Iterable[Row],
        app_id: str,
        sequence: int,
        user_metadata: str | None,
        *,
        without: Iterable[str] = (),
    ) -> None:
        """As Delta does it: skip what is not newer than the last Txn, refuse what another one overtook."""
        read_version = len(self.commits)
        if self._has_txn(app_id, sequence):
            return
        self._overtake()
        if any(app_id in commit.txns for commit in self.commits[read_version:]):
            raise LostRace(f"{app_id}: another commit of the same source came first")
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "lost":
            raise CommitOutcomeUnknown("the connection broke before anything was written")
        gone = set(without)
        self.rows = [row for row in self.rows if row.path not in gone] + list(added)
        self.commits.append(Commit(len(self.commits), {app_id: sequence}, user_metadata, None))
        self.ever_committed.append(user_metadata)
        if fault == "answer lost":
            raise CommitOutcomeUnknown("the connection broke before the answer came")

    def _has_txn(self, app_id: str, sequence: int) -> bool:
        last = self.last_txn(app_id)
        return last is not None and last >= sequence

    def _overtake(self) -> None:
        action, self.before_commit = self.before_commit, None
        if action is not None:
            action()

    def spoil(self, version: int, user_metadata: str | None = "{torn") -> None:
        """Make the userMetadata of a commit unreadable."""
        self.commits[version] = replace(self.commits[version], user_metadata=user_metadata)


class MemoryTable:
    """The table as one source sees it."""

    def __init__(self, delta: MemoryDelta, identity: Identity, calls: Calls) -> None:
        self._delta = delta
        self._identity = identity
        self._calls = calls

    def prepare(self) -> None:
        self._calls("prepare")
        self._delta.create()

    def newest_version(self) -> int:
        self._calls("newest_version")
        return len(self._delta.commits) - 1

    def commits(self, limit: int, *, above: int = -1) -> Iterator[Commit]:
        self._calls("commits")
        newest_first = [commit for commit in reversed(self._delta.commits) if commit.version > above]
        return iter(newest_first[:limit])

    def commit_at(self, version: int) -> Commit | None:
        self._calls("commit_at")
        return next((commit for commit in self._delta.commits if commit.version == version), None)

    def checkpoints_at(self, version: int) -> bool:
        return version > 0 and version % 10 == 0

    def txn_version(self, app_id: str) -> int | None:
        self._calls("txn_version")
        return self._delta.last_txn(app_id)

    def txns(self) -> list[Txn]:
        self._calls("txns")
        commits = self._delta.commits
        return [Txn(app_id, n, commit.committed_ts) for commit in commits for app_id, n in commit.txns.items()]

    def loose_files(self) -> list[str]:
        self._calls("loose_files")
        return [*self._delta.loose_files]

    def holds_rows(self) -> bool:
        self._calls("holds_rows")
        return any(True for _ in self._rows())

    def files_after(self, sequence: int) -> Mapping[str, int]:
        self._calls("files_after")
        found: dict[str, int] = {}
        for row in self._rows():
            if row.sequence > sequence:
                found[row.path] = max(found.get(row.path, -1), row.row)
        return found

    def etags(self, paths: Iterable[str]) -> Mapping[str, frozenset[str]]:
        self._calls("etags")
        found: dict[str, set[str]] = {path: set() for path in paths}
        for row in self._rows():
            if row.path in found:
                found[row.path].add(row.etag)
        return {path: frozenset(etags) for path, etags in found.items() if etags}

    def append(self, rows: Rows | None, *, sequence: int, user_metadata: str) -> None:
        self._calls("append")
        added = rows.rows if isinstance(rows, MemoryRows) else ()
        self._delta.commit(added, self._identity.app_id, sequence, user_metadata)

    def replace(self, rows: Rows, paths: Sequence[str], *, sequence: int, user_metadata: str) -> None:
        self._calls("replace")
        assert isinstance(rows, MemoryRows)
        self._delta.commit(rows.rows, self._identity.app_id, sequence, user_metadata, without=paths)

    def _rows(self) -> Iterator[Row]:
        return (row for row in self._delta.rows if row.source == self._identity.source_id)


@dataclass(slots=True)
class MemoryRows:
    """What was read; `released` says that it was let go."""

    outcomes: Sequence[Outcome]
    rows: Sequence[Row]
    letters: Sequence[DeadLetter]
    dead_letters: DeadLetters
    clock: Clock
    write_share: float = 0.0
    released: bool = False

    @property
    def held(self) -> int:
        return len(self.rows)

    def put_dead_records(self) -> None:
        self.dead_letters.write_records(self.letters, self.clock())

    def release(self) -> None:
        self.released = True


class MemoryReader:
    """Reads lines. `denied` paths are refused by storage; the first `passing` reads fail until storage recovers.
    `write_share`: what its rows say of the time that writing took."""

    def __init__(
        self, source: ObjectStore, dead_letters: DeadLetters, source_id: str, clock: Clock, calls: Calls
    ) -> None:
        self._source = source
        self._dead_letters = dead_letters
        self._source_id = source_id
        self._clock = clock
        self._calls = calls
        self.denied: set[str] = set()
        self.passing = 0
        self.write_share = 0.0
        self.given: list[MemoryRows] = []
        self.replacing: list[bool] = []
        """Of each read, whether its rows were to take the place of others."""

    def read(self, files: Sequence[PlannedFile], *, sequence: int, replacing: bool = False) -> MemoryRows:
        self._calls("read")
        self.replacing.append(replacing)
        rows: list[Row] = []
        letters: list[DeadLetter] = []
        outcomes = [self._read_file(file, sequence, rows, letters) for file in files]
        given = MemoryRows(outcomes, rows, letters, self._dead_letters, self._clock, self.write_share)
        self.given.append(given)
        return given

    def _read_file(self, file: PlannedFile, sequence: int, rows: list[Row], letters: list[DeadLetter]) -> Outcome:
        if self.passing:
            self.passing -= 1
            return _failed(file, "", "503 slow down", trouble=FailureKind.TRANSIENT)
        if file.path in self.denied:
            return _failed(file, "", "403 forbidden", trouble=FailureKind.DENIED)
        try:
            with self._source.open(file.path) as reader:
                info, content = reader.info, reader.read()
        except NotFound:
            return _failed(file, "", "gone")
        if file.expected_etag not in (None, info.etag):
            return _failed(file, file.expected_etag or "", "it changed while in progress")
        if content.startswith(POISON):
            return _failed(file, info.etag, "not a gzip file", stage=Stage.DECOMPRESS)
        return self._take(file, info, content, sequence, rows, letters)

    def _take(
        self,
        file: PlannedFile,
        info: ObjectInfo,
        content: bytes,
        sequence: int,
        rows: list[Row],
        letters: list[DeadLetter],
    ) -> Outcome:
        records = content.decode().splitlines()
        last = _end_of_slice(records, file)
        good = dead = 0
        for number in range(file.skip_records, last):
            value = records[number]
            if value.startswith(REFUSED):
                letters.append(DeadLetter(file.path, info.etag, Stage.PARSE, "no record", number, value))
                dead += 1
            else:
                rows.append(Row(self._source_id, file.path, number, info.etag, value, sequence))
                good += 1
        return Outcome(file.path, info.etag, info.size, good, dead, last, finished=last >= len(records))


def _end_of_slice(records: Sequence[str], file: PlannedFile) -> int:
    """The number of the record before which the slice ends; it has at least one."""
    if file.slice_bytes is None:
        return max(len(records), file.skip_records)
    budget_bytes, number = file.slice_bytes, file.skip_records
    while number < len(records) and budget_bytes > 0:
        budget_bytes -= len(records[number]) + 1
        number += 1
    return number


def _failed(
    file: PlannedFile, etag: str, error: str, *, stage: Stage = Stage.DOWNLOAD, trouble: FailureKind | None = None
) -> Outcome:
    return Outcome(
        file.path, etag, file.size, records_read=file.skip_records, stage=stage, error=error, trouble=trouble
    )


def settings(
    *,
    window: Window | None = None,
    lookback: int = 2,
    interval_files: int = 100,
    interval_bytes: int = 1 << 20,
    interval_secs: float = 60.0,
    settle_delay_secs: float = 60.0,
    late_overlap_secs: float = 100.0,
    on_overwrite: OnOverwrite = OnOverwrite.IGNORE,
    max_tracked_files: int = 1000,
    max_attempts: int = 8,
    max_backoff_secs: float = 20.0,
) -> Settings:
    """A source of `*.txt` files."""
    return Settings(
        rules=BatchRules(
            window.folder_of if window else no_folder, interval_files, interval_bytes, late_overlap_secs, on_overwrite
        ),
        sweep_rules=SweepRules(
            lambda path: path.endswith(".txt"), window, lookback, settle_delay_secs, late_overlap_secs
        ),
        interval_secs=interval_secs,
        max_tracked_files=max_tracked_files,
        max_attempts=max_attempts,
        max_backoff_secs=max_backoff_secs,
    )


class World:
    """One source with all that surrounds it: files, events, manifest, table, and jobs that may be started any time."""

    def __init__(self, wanted: Settings | None = None, *, tick_secs: float = 0.001) -> None:
        self.settings = wanted or settings()
        self.identity = Identity("events", "landing", "_blizzard/events_landing")
        self.clock = Clock(tick_secs=tick_secs)
        self.stopwatch = Clock(0.0)
        self.calls = Calls()
        self.source = MemoryStore(self.clock, "memory://landing/")
        self.state = MemoryStore(self.clock, "memory://lake/")
        self.delta = MemoryDelta()
        self.contents: dict[tuple[str, str], bytes] = {}
        self.log: list[tuple[str, Mapping[str, object]]] = []
        self.slept_secs: list[float] = []
        self.dead_letters = DeadLetters(self.state, self.identity.state_prefix, self.identity.source_id)
        self.reader = MemoryReader(
            WatchedStore(self.source, self.calls),
            DeadLetters(self._watched_state(), self.identity.state_prefix, self.identity.source_id),
            self.identity.source_id,
            self.clock,
            self.calls,
        )
        self._ids = 0
        self._sweeps: list[Sweep] = []
        self._segments_seen = 0

    # -- files and events

    def put(self, path: str, *records: str, raw: bytes | None = None) -> Entry:
        """Put a file into the source; returns the event that S3 would send."""
        data = raw if raw is not None else "".join(f"{record}\n" for record in records).encode()
        info = self.source.put(path, data)
        self.contents[path, info.etag] = data
        return Entry(path, info.size, info.etag, info.modified_ts)

    def deliver(self, *events: Entry) -> int:
        """Let the collector append the events as one segment; returns its number."""
        return self.manifest().append(events, writer_id=self.new_id(), now_ts=self.clock())

    def arrive(self, path: str, *records: str) -> Entry:
        """Put a file and deliver its event."""
        event = self.put(path, *(records or (f"{path} 0", f"{path} 1")))
        self.deliver(event)
        return event

    def source_event(self, path: str) -> Entry:
        """The event of a file as it is."""
        info = self.source.head(path)
        assert info is not None
        return Entry(path, info.size, info.etag, info.modified_ts)

    # -- sweeps and jobs

    def manifest(self) -> Manifest:
        return Manifest(self._watched_state(), self.identity.state_prefix, self.identity.source_id)

    def sweeper(
        self, checkpoint: Checkpoint | None = None, *, deadline_ts: float = float("inf"), **more: Any
    ) -> Sweeper:
        """A sweep from the checkpoint's copy, or from any other state."""
        state = checkpoint or read_copy(self._watched_state(), self.identity) or self.unknown()
        return Sweeper(
            WatchedStore(self.source, self.calls),
            self.manifest(),
            state,
            self.settings.sweep_rules,
            clock=self.clock,
            writer_id=self.new_id(),
            deadline_ts=deadline_ts,
            **more,
        )

    def sweep(self, checkpoint: Checkpoint | None = None, **more: Any) -> SweepReport:
        return self.sweeper(checkpoint, **more).watermark_sweep()

    def late_sweep(self, checkpoint: Checkpoint | None = None, **more: Any) -> SweepReport:
        state = checkpoint or read_copy(self._watched_state(), self.identity) or self.unknown()
        receipts = Receipts(self._watched_state(), self.identity.state_prefix)
        sweeper = self.sweeper(state, **more)
        return sweeper.late_sweep(lambda since_ts: receipts.ingested_since(state.receipt, since_ts))

    def source_sweep(self) -> SourceSweep:
        """As the sweeper has it: from the checkpoint's copy, and with its report."""
        return SourceSweep(
            self.identity,
            self.source,
            self.state,
            self.settings.sweep_rules,
            self.clock,
            self.new_id,
            lambda event, /, **fields: self.log.append((event, fields)),
        )

    def job(self) -> Ingest:
        """A new process of the ingest job."""
        return Ingest(
            self.identity,
            self.settings,
            table=self.table(),
            reader=self.reader,
            state=self._watched_state(),
            source=WatchedStore(self.source, self.calls),
            clock=self.clock,
            watch=Stopwatch(self.stopwatch),
            new_id=self.new_id,
            sleep=self._sleep,
            log=self._note,
        )

    def table(self) -> MemoryTable:
        return MemoryTable(self.delta, self.identity, self.calls)

    def drain(self) -> Totals:
        """Start a job and let it run until nothing is left."""
        return self.job().drain()

    def unknown(self) -> Checkpoint:
        return Checkpoint(pipeline=self.identity.pipeline, source=self.identity.source)

    def settle(self) -> None:
        """Let time pass until all files are old enough, then sweep both ways and ingest what that finds."""
        self.clock.advance(self.settings.sweep_rules.settle_delay_secs + 1)
        self.drain()
        self.sweep()
        self.drain()
        self.late_sweep()
        self.drain()
        self.sweep()
        self.drain()

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:06d}"

    def _sleep(self, secs: float) -> None:
        self.slept_secs.append(secs)
        self.clock.advance(secs)

    def _note(self, event: str, /, **fields: object) -> None:
        self.log.append((event, fields))

    def _watched_state(self) -> WatchedStore:
        return WatchedStore(self.state, self.calls)

    # -- harm

    def wipe(self) -> None:
        """Delete the whole pending manifest."""
        self.state.delete([info.key for info in self.state.list(f"{self.identity.state_prefix}/pending/")])

    def forget_copy(self) -> None:
        self.state.delete([self.identity.copy_key])

    def corrupt_segment(self, number: int) -> None:
        self.state.put(self._segment_key(number), b"{torn")

    def _segment_key(self, number: int) -> str:
        return f"{self.identity.state_prefix}/pending/{number:020d}.json"

    # -- what a user sees

    def files(self) -> dict[str, list[str]]:
        """What the table holds of each file, in the order of the rows."""
        found: dict[str, list[tuple[int, str]]] = {}
        for row in self.delta.rows:
            found.setdefault(row.path, []).append((row.row, row.value))
        return {path: [value for _, value in sorted(rows)] for path, rows in sorted(found.items())}

    def doubled(self) -> list[tuple[str, int]]:
        """Records that are in the table more than once."""
        counts = Counter((row.path, row.row) for row in self.delta.rows)
        return [key for key, count in counts.items() if count > 1]

    def dead_files(self) -> dict[str, str]:
        """Path to error of the files that were dead-lettered as a whole."""
        return {letter["path"]: letter["error"] for letter in self._of_whole_files()}

    def dead_contents(self) -> set[tuple[str, str]]:
        """Path and etag of what was dead-lettered as a whole."""
        return {(letter["path"], letter["etag"]) for letter in self._of_whole_files()}

    def _of_whole_files(self) -> Iterator[dict[str, Any]]:
        return (letter for letter in self.dead_letters.letters() if "row" not in letter)

    def dead_records(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for letter in self.dead_letters.letters():
            if "row" in letter:
                found.setdefault(letter["path"], []).append(letter["row"])
        return found

    def states(self) -> list[Checkpoint]:
        """Every checkpoint that was ever committed, oldest first, also those that are unreadable by now."""
        return [state for text in self.delta.ever_committed if (state := _decoded(text)) is not None]

    def state_now(self) -> Checkpoint:
        return self.states()[-1]

    def state_of(self, version: int) -> Checkpoint | None:
        return _decoded(self.delta.commits[version].user_metadata)

    def segments(self) -> list[int]:
        return [ref.number for ref in self.manifest().refs()]

    def paths_of(self, number: int) -> list[str]:
        """The files that a segment names; none when it cannot be read."""
        ref = next(ref for ref in self.manifest().refs() if ref.number == number)
        try:
            return [entry.path for entry in self.manifest().read(ref).entries]
        except UnreadableState:
            return []

    def sweeps(self) -> list[Sweep]:
        """What all sweeps ever said."""
        for key, data in self.calls.created[self._segments_seen :]:
            sweep = self._segment(key, data).sweep
            self._sweeps += [] if sweep is None else [sweep]
        self._segments_seen = len(self.calls.created)
        return self._sweeps

    def cold_through(self) -> str:
        """Up to where cold starts left out what was there."""
        swept = [sweep.closing.through for sweep in self.sweeps() if sweep.closing and sweep.closing.cold]
        listed = [str(fields["closed_through"] or "") for fields in self.events_logged("settled_by_listing")]
        return max(swept + listed, default="")

    def _segment(self, key: str, data: bytes) -> Segment:
        number = int(key.rpartition("/")[2].removesuffix(".json"))
        return decode_segment(data, self.identity.source_id, SegmentRef(number, "", 0))

    def events_logged(self, name: str) -> list[Mapping[str, object]]:
        return [fields for event, fields in self.log if event == name]


@cache
def _decoded(user_metadata: str | None) -> Checkpoint | None:
    try:
        return decode(user_metadata or "", pipeline="events", source="landing")
    except UnreadableState:
        return None
