"""One source with all that surrounds it, in memory: files, events, manifest, table and jobs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from blizzard.errors import UnreadableState
from blizzard.history.packer import HistorySettings
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.ledger.merge import LedgerSettings
from blizzard.ledger.settled_files import SettledFiles
from blizzard.log import silent
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segment_codec import decode_segment
from blizzard.manifest.segments import Entry, Segment, SegmentRef, Sweep
from blizzard.state.batch import BatchRules, OnOverwrite
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.checkpoint_codec import BaseSettings, CheckpointCodec, read_copy
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.identity import SourceIdentity
from blizzard.state.watermark import no_folder
from blizzard.storage.base import ObjectStore
from blizzard.storage.memory import MemoryStore
from blizzard.sweep.report import SweepReport
from blizzard.sweep.rules import SweepRules, Window
from blizzard.sweep.source_sweep import SourceSweep
from blizzard.sweep.sweeper import Sweeper
from spark_job.loop.files.ingest_files import ingest_files
from spark_job.loop.files.settings import FileSettings
from spark_job.loop.ingest import Ingest, Totals
from spark_job.ports.stopwatch import Stopwatch
from spark_job.repair.repair_files import Repair, repair_files
from spark_job.repair.work import Item, Work
from tests.unit.memory_reader import MemoryReader
from tests.unit.memory_table import MemoryDelta, MemoryTable
from tests.unit.watched_calls import Calls, Clock, WatchedStore

DAY_SECS = 1000.0
IN_ONE_THREAD = LedgerSettings(in_background=False, parallel_reads=1)
"""So that each call of a store has its place in the order of all calls."""
PACKED_IN_ONE_THREAD = HistorySettings(in_background=False, parallel_reads=1)


class Days:
    """A window of days of DAY_SECS each: folders such as `day=0100`, and folders below them."""

    def folder_of(self, partition: str) -> str | None:
        folder = partition.partition("/")[0]
        return folder if folder.startswith("day=") and folder[4:].isdigit() else None

    def oldest_folder(self, now_ts: float, lookback: int) -> str:
        return f"day={int(now_ts // DAY_SECS) - lookback + 1:04d}"


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
    max_attempts: int = 8,
    max_backoff_secs: float = 20.0,
    ledger: LedgerSettings | None = None,
    unordered_requests: int = 30,
    quiet_secs: float = 86_400.0,
    many_folders: int = 1_000,
    bases: BaseSettings | None = None,
) -> FileSettings:
    """A source of `*.txt` files."""
    return FileSettings(
        rules=BatchRules(
            window.folder_of if window else no_folder, interval_files, interval_bytes, late_overlap_secs, on_overwrite
        ),
        sweep_rules=SweepRules(
            lambda path: path.endswith(".txt"),
            window,
            lookback,
            settle_delay_secs,
            late_overlap_secs,
            unordered_requests,
            quiet_secs,
            many_folders,
        ),
        interval_secs=interval_secs,
        max_attempts=max_attempts,
        max_backoff_secs=max_backoff_secs,
        ledger=ledger or IN_ONE_THREAD,
        bases=bases or BaseSettings(),
        history=PACKED_IN_ONE_THREAD,
    )


class World:
    """One source with all that surrounds it: files, events, manifest and table. Jobs may be started at any time."""

    def __init__(self, wanted: FileSettings | None = None, *, tick_secs: float = 0.001) -> None:
        self.settings = wanted or settings()
        self.identity = SourceIdentity("events", "landing", "_blizzard/events_landing")
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
        self.reader.columns = lambda: self.delta.columns
        self._ids = 0
        self._ever_decoded: dict[str, Checkpoint | None] = {}
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
        """A sweep that starts from the copy of the checkpoint, or from another state."""
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
        state = checkpoint or read_copy(self._watched_state(), self.identity) or self.unknown()
        return self.sweeper(state, **more).watermark_sweep(self.settled_files(state).unsettled_paths)

    def late_sweep(self, checkpoint: Checkpoint | None = None, **more: Any) -> SweepReport:
        state = checkpoint or read_copy(self._watched_state(), self.identity) or self.unknown()
        return self.sweeper(state, **more).late_sweep(self.settled_files(state).unsettled)

    def settled_files(self, state: Checkpoint) -> SettledFiles:
        return SettledFiles(self._watched_state(), self.identity, state, self.record, parallel=1)

    def ledger(self, state: Checkpoint) -> set[str]:
        """The files of the source that the ledger has, as a job opens it from this state."""
        return set(self.ledger_keeper().find(state, {path for path, _ in self.contents}))

    def ledger_keeper(self) -> LedgerKeeper:
        """As a job has it."""
        return LedgerKeeper(
            self.state,
            self.identity,
            ask_table=self.table().files_of_commits,
            clock=self.clock,
            new_id=self.new_id,
            log=silent,
            settings=IN_ONE_THREAD,
        )

    def source_sweep(self, inventory: ObjectStore | None = None) -> SourceSweep:
        """As in the sweeper: it starts from the copy of the checkpoint and writes its report."""
        return SourceSweep(
            self.identity,
            self.source,
            self.state,
            self.settings.sweep_rules,
            self.clock,
            self.new_id,
            self.record,
            inventory,
        )

    def record(self, event: str, /, **fields: object) -> None:
        self.log.append((event, fields))

    def job(self) -> Ingest:
        """A new process of the ingest job."""
        return ingest_files(
            self.identity,
            self.settings,
            table=self.table(),
            reader=self.reader,
            state=self._watched_state(),
            files=WatchedStore(self.source, self.calls),
            clock=self.clock,
            watch=Stopwatch(self.stopwatch),
            new_id=self.new_id,
            sleep=self._sleep,
            log=self._note,
        )

    def repair(self, *items: Item) -> tuple[Work, Repair]:
        """A new process that has these read once more."""
        work = Work(items)
        repair = repair_files(
            self.identity,
            self.settings,
            work=work,
            table=self.table(),
            reader=self.reader,
            given_reader=self.reader,
            state=self._watched_state(),
            files=WatchedStore(self.source, self.calls),
            clock=self.clock,
            watch=Stopwatch(self.stopwatch),
            new_id=self.new_id,
            sleep=self._sleep,
            log=self._note,
        )
        return work, repair

    def table(self) -> MemoryTable:
        return MemoryTable(self.delta, self.identity, self.calls)

    def drain(self) -> Totals:
        """Start a job and let it run until nothing is left."""
        return self.job().drain()

    def unknown(self) -> Checkpoint:
        return Checkpoint(pipeline=self.identity.pipeline, source=self.identity.source)

    def settle(self) -> None:
        """Let time pass until all files are old enough, then make both sweeps and ingest what they find."""
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
        """Path to the values of its rows in the table, in the order of their numbers."""
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
        return {letter["path"]: letter["error"] for letter in self._letters_of_files()}

    def dead_contents(self) -> set[tuple[str, str]]:
        """Path and etag of each content that was dead-lettered as a whole."""
        return {(letter["path"], letter["etag"]) for letter in self._letters_of_files()}

    def _letters_of_files(self) -> Iterator[dict[str, Any]]:
        return (letter for letter in self.dead_letters.letters() if "row" not in letter)

    def dead_records(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for letter in self.dead_letters.letters():
            if "row" in letter:
                found.setdefault(letter["path"], []).append(letter["row"])
        return found

    def states(self) -> list[Checkpoint]:
        """Every checkpoint that was ever committed, oldest first, including those that are unreadable by now."""
        return [state for text in self.delta.ever_committed if (state := self._ever(text or "")) is not None]

    def _ever(self, text: str) -> Checkpoint | None:
        if text not in self._ever_decoded:
            bases = MemoryStore(self.clock)
            for key, data in self.calls.bases.items():
                bases.put(key, data)
            self._ever_decoded[text] = _decoded(CheckpointCodec(bases, self.identity), text)
        return self._ever_decoded[text]

    def state_now(self) -> Checkpoint:
        return self.states()[-1]

    def state_of(self, version: int) -> Checkpoint | None:
        """The checkpoint in a commit of the table; None if it cannot be read."""
        text = self.delta.commits[version].user_metadata or ""
        return _decoded(CheckpointCodec(self.state, self.identity), text)

    def bases(self) -> list[str]:
        """The keys of the stored bases."""
        return [info.key for info in self.state.list(self.identity.bases_folder)]

    def segments(self) -> list[int]:
        return [ref.number for ref in self.manifest().refs()]

    def paths_of(self, number: int) -> list[str]:
        """The paths in a segment; none if it cannot be read."""
        ref = next(ref for ref in self.manifest().refs() if ref.number == number)
        try:
            return [entry.path for entry in self.manifest().read(ref).entries]
        except UnreadableState:
            return []

    def sweeps(self) -> list[Sweep]:
        """The sweep part of every segment that ever had one."""
        for key, data in self.calls.created[self._segments_seen :]:
            sweep = self._segment(key, data).sweep
            self._sweeps += [] if sweep is None else [sweep]
        self._segments_seen = len(self.calls.created)
        return self._sweeps

    def cold_through(self) -> str:
        """The newest dated folder up to which a cold start skipped files; empty without one."""
        return max((s.closing.through for s in self.sweeps() if s.closing and s.closing.cold), default="")

    def _segment(self, key: str, data: bytes) -> Segment:
        number = int(key.rpartition("/")[2].removesuffix(".json"))
        return decode_segment(data, self.identity.source_id, SegmentRef(number, "", 0))

    def events_logged(self, name: str) -> list[Mapping[str, object]]:
        return [fields for event, fields in self.log if event == name]


def _decoded(codec: CheckpointCodec, text: str) -> Checkpoint | None:
    try:
        return codec.decode(text)
    except UnreadableState:
        return None
