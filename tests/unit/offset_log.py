"""A source of another kind than files: a log in memory with partitions and offsets, as a Kafka topic has them. Its
offsets ride in the commits, as the checkpoint of files does."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from blizzard.errors import RecoveryError
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_changes import SchemaChange
from blizzard.storage.memory import MemoryStore
from spark_job.loop.ingest import Ingest, LoopSettings
from spark_job.ports.source import BatchCounts, InputDiscovery, Receipt, Recovered, Resolved
from spark_job.ports.stopwatch import Stopwatch, TurnSecs
from tests.unit.fakes import REFUSED, Calls, Clock, MemoryDelta, MemoryRows, MemoryTable, Row, WatchedStore

CONTROL = "\x00"
"""A record that no consumer sees, such as the marker of a transaction."""


@dataclass(frozen=True)
class Offsets:
    """The checkpoint: per partition the next offset to read."""

    sequence: int = -1
    delta_version: int = -1
    receipt: str | None = None
    next_offsets: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RangePlan:
    """Of each partition the offsets from `base` (inclusive) to `ends` (exclusive), less control records."""

    base: Offsets
    ends: Mapping[int, int]
    records: Sequence[tuple[int, int]]
    full: bool
    unresolved: bool = False
    segments: int = 0
    duplicates: int = 0
    schema_change: SchemaChange | None = None

    @property
    def empty(self) -> bool:
        return not self.records

    @property
    def moved(self) -> bool:
        return {**self.base.next_offsets, **self.ends} != self.base.next_offsets


@dataclass(frozen=True)
class RangeBatch:
    rows: MemoryRows
    counts: BatchCounts
    replaced: Sequence[str] = ()


class OffsetLogSource:
    """The log as the loop drives it (`SourceKind`)."""

    def __init__(self, world: "LogWorld", table: MemoryTable) -> None:
        self._world = world
        self._table = table
        self._state = WatchedStore(world.state, world.calls)
        self._letters = DeadLetters(self._state, world.identity.state_prefix, world.identity.source_id)

    def recover(self) -> Recovered[Offsets]:
        version = self._table.txn_version(self._world.identity.app_id)
        if version is None:
            return Recovered(Offsets())
        for commit in self._table.commits(100):
            if commit.txns.get(self._world.identity.app_id) == version:
                return Recovered(_decode(commit.user_metadata or ""), unpublished=True)
        raise RecoveryError("no commit has the offsets")

    def plan(self, checkpoint: Offsets) -> RangePlan:
        room, ends = self._world.batch_records, dict(checkpoint.next_offsets)
        taken: list[tuple[int, int]] = []
        for partition, records in sorted(self._world.partitions.items()):
            self._world.calls("poll")
            while ends.get(partition, 0) < len(records) and len(taken) < room:
                offset = ends.get(partition, 0)
                if records[offset] != CONTROL:
                    taken.append((partition, offset))
                ends[partition] = offset + 1
        return RangePlan(checkpoint, ends, taken, full=len(taken) >= room)

    def resolve(self, plan: RangePlan) -> Resolved[RangePlan]:
        raise AssertionError("a log has no suspects")

    def start(self, plan: RangePlan) -> RangePlan:
        return plan

    def read(self, plan: RangePlan) -> RangeBatch:
        self._world.calls("read")
        rows: list[Row] = []
        letters: list[DeadLetter] = []
        source_id, sequence = self._world.identity.source_id, plan.base.sequence + 1
        for partition, offset in plan.records:
            value = self._world.partitions[partition][offset]
            if value.startswith(REFUSED):
                letters.append(DeadLetter(str(partition), "", Stage.PARSE, "no record", offset, value))
            else:
                rows.append(Row(source_id, str(partition), offset, "", value, sequence))
        counts = BatchCounts(len({partition for partition, _ in plan.records}), len(rows), 0, len(letters))
        held = MemoryRows([], rows, letters, self._letters, self._world.clock)
        self._world.batches.append(held)
        return RangeBatch(held, counts)

    def change_schema(self, plan: RangePlan, batch: RangeBatch) -> RangePlan | None:
        return None

    def has_caught_up(self, plan: RangePlan) -> bool:
        return False

    def is_busy(self) -> bool:
        return False

    def owes_commit(self, checkpoint: Offsets) -> bool:
        return False

    def skip(self, plan: RangePlan) -> Offsets:
        return replace(plan.base, next_offsets=plan.ends)

    def settle(self, plan: RangePlan, batch: RangeBatch | None) -> Offsets:
        return self.skip(plan)

    def record(self, plan: RangePlan, batch: RangeBatch | None) -> Receipt:
        if batch is not None and batch.counts.dead_records:
            batch.rows.write_dead_records()
        name = f"{plan.base.sequence + 1}-{self._world.new_id()}"
        self._state.put(f"{self._world.identity.state_prefix}/receipts/{name}", json.dumps(plan.ends).encode())
        return Receipt(name, self._world.clock())

    def stamp(self, checkpoint: Offsets, *, delta_version: int, receipt: Receipt) -> Offsets:
        return replace(checkpoint, sequence=checkpoint.sequence + 1, delta_version=delta_version, receipt=receipt.name)

    def encode(self, checkpoint: Offsets) -> str:
        offsets = {str(partition): offset for partition, offset in checkpoint.next_offsets.items()}
        return json.dumps([checkpoint.sequence, checkpoint.delta_version, checkpoint.receipt, offsets])

    def further_txns(self, checkpoint: Offsets) -> Mapping[str, int]:
        return {}

    def publish(self, checkpoint: Offsets, *, copy: bool) -> None:
        if copy:
            self._state.put(self._world.identity.copy_key, self.encode(checkpoint).encode())

    def log_recovered(self, checkpoint: Offsets, secs: TurnSecs) -> None:
        self._world.note("recovered", sequence=checkpoint.sequence)

    def log_committed(
        self, checkpoint: Offsets, counts: BatchCounts, *, version: int, delta_checkpoint: bool, secs: TurnSecs
    ) -> None:
        self._world.note("batch_committed", sequence=checkpoint.sequence, rows=counts.rows)


class NothingToDiscover:
    """Every plan sees all records of the log (`InputDiscovery`)."""

    def discover_due(self, now_ts: float) -> None: ...

    def discover_all(self) -> None: ...


@dataclass(frozen=True)
class LogJob:
    """The log as draining and continuous runs use it."""

    ingest: Ingest
    discovery: InputDiscovery = field(default_factory=NothingToDiscover)
    source_id: str = "events:topic"
    pipeline: str = "events"
    linger_secs: float = 0.0
    poll_secs: float = 1.0
    failed_pause_secs: float = 60.0


def _decode(text: str) -> Offsets:
    sequence, delta_version, receipt, offsets = json.loads(text)
    return Offsets(sequence, delta_version, receipt, {int(partition): offset for partition, offset in offsets.items()})


class LogWorld:
    """A log, a table, and jobs that may be started at any time."""

    def __init__(self, *, batch_records: int = 3) -> None:
        self.identity = SourceIdentity("events", "topic", "_blizzard/events_topic")
        self.batch_records = batch_records
        self.partitions: dict[int, list[str]] = {}
        self.clock = Clock()
        self.calls = Calls()
        self.delta = MemoryDelta()
        self.state = MemoryStore(self.clock, "memory://lake/")
        self.log: list[tuple[str, Mapping[str, object]]] = []
        self.batches: list[MemoryRows] = []
        self._ids = 0

    def produce(self, partition: int, *records: str) -> None:
        self.partitions.setdefault(partition, []).extend(records)

    def job(self) -> Ingest:
        """A new process."""
        table = MemoryTable(self.delta, self.identity, self.calls)
        return Ingest(
            self.identity,
            LoopSettings(),
            source=OffsetLogSource(self, table),
            table=table,
            clock=self.clock,
            watch=Stopwatch(self.clock),
            new_id=self.new_id,
            sleep=self.clock.advance,
            log=self.note,
        )

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:06d}"

    def note(self, event: str, /, **fields: object) -> None:
        self.log.append((event, fields))

    def before_commit(self, action: Callable[[], object]) -> None:
        self.delta.before_commit = action

    def rows(self) -> list[tuple[int, int, str]]:
        """Partition, offset and value of each row of the table, in that order; doubled rows are there twice."""
        return sorted((int(row.path), row.row, row.value) for row in self.delta.rows)

    def good_records(self) -> list[tuple[int, int, str]]:
        """What the table has to hold once the backlog is gone."""
        found = ((p, n, value) for p, records in self.partitions.items() for n, value in enumerate(records))
        return sorted(record for record in found if not record[2].startswith((REFUSED, CONTROL)))

    def dead_records(self) -> list[tuple[str, int]]:
        letters = DeadLetters(self.state, self.identity.state_prefix, self.identity.source_id).letters()
        return sorted((letter["path"], letter["row"]) for letter in letters)

    def committed_offsets(self) -> Mapping[int, int]:
        """Those of the newest commit."""
        return _decode(self.delta.commits[-1].user_metadata or "").next_offsets
