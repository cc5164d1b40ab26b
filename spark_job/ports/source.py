"""What the loop needs of a source: recover a position, plan a batch, read it, say what is settled.

A kind of source implements `SourceKind` and `InputDiscovery`. There are two: files (`spark_job/loop/files`), and topics
of Kafka (`spark_job/loop/topics`), whose checkpoint maps partitions to next offsets. The loop
(`spark_job/loop/ingest.py`) drives either turn by turn, retries, commits and notices lost races:

| method | for files | for a topic |
|---|---|---|
| `recover` | newest readable checkpoint of the log, repaired from the rows if there is none | the same, with offsets |
| `plan` | entries of the pending manifest, up to a batch | ranges of offsets, up to a batch |
| `resolve` | looks suspects up in the ledger | not needed: `unresolved` is always False |
| `start` | expected etags of files in progress; logs the plan | logs the plan |
| `read` | Spark reads files; systemic failures stop the run | reads the ranges of offsets |
| `has_caught_up` | always False | the partitions are read to where they ended when the run began |
| `is_busy` | runs of the ledger are being merged | always False |
| `owes_commit` | a rebuilt or merged ledger that no commit names yet | always False |
| `skip` | the position moves past duplicates | the position stays |
| `change_schema` | columns for new fields, if the source says so | the same |
| `settle` | watermarks move; in-progress files are noted | the end of each range is the next offset |
| `record` | dead letters and receipt | dead letters and receipt |
| `further_txns` | none | one for each partition that moved |
| `publish` | copy of the checkpoint; trims the manifest | copy of the checkpoint |
| `InputDiscovery` | sweeps | not needed: its methods do nothing |

`C` is the source's checkpoint, `P` its plan, `B` its batch. Only the source looks into them; the loop sees what the
Protocols here name. A source times its own requests with the loop's stopwatch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from blizzard.state.schema_changes import SchemaChange
from spark_job.ports.rows import Rows
from spark_job.ports.stopwatch import TurnSecs
from spark_job.ports.table import Txns


class SourceCheckpoint(Protocol):
    """The state of a source as of one commit. The loop uses no other part of it."""

    @property
    def sequence(self) -> int:
        """Number of the source's commit, which is the version of its Txn; -1 before the first."""
        ...

    @property
    def delta_version(self) -> int:
        """A version that the table had before the commit; -1: there was no table."""
        ...


class Plan(Protocol):
    """What the next commit takes. Making a plan changes nothing, so it may be made again at any time."""

    @property
    def base(self) -> SourceCheckpoint:
        """The checkpoint that the plan continues from."""
        ...

    @property
    def empty(self) -> bool:
        """Whether there is nothing to read. The position may have moved nevertheless."""
        ...

    @property
    def full(self) -> bool:
        """Whether the batch has reached its maximum size. If not, it waits for its interval."""
        ...

    @property
    def moved(self) -> bool:
        """Whether the position is past that of `base`."""
        ...

    @property
    def unresolved(self) -> bool:
        """Whether the table must be queried for what to read, see `SourceKind.resolve`."""
        ...

    @property
    def segments(self) -> int:
        """How far the position moves. The committed position may lag behind by `MAX_LAG_SEGMENTS` of these units."""
        ...

    @property
    def duplicates(self) -> int:
        """Number of inputs that are known to be ingested already and are dropped; for the log."""
        ...

    @property
    def schema_change(self) -> SchemaChange | None:
        """What the commit changes in the table's schema. It then takes nothing else, and the position stays."""
        ...


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """The size of one batch; for the log. `files` counts the units of input, including those that failed."""

    files: int = 0
    rows: int = 0
    dead_files: int = 0
    dead_records: int = 0


class Batch(Protocol):
    """A batch that was read and waits for its commit. The loop always releases its rows, committed or not."""

    @property
    def rows(self) -> Rows: ...

    @property
    def counts(self) -> BatchCounts: ...

    @property
    def replaced(self) -> Sequence[str]:
        """Paths whose rows in the table these rows replace. Empty: the rows are appended."""
        ...


C = TypeVar("C", bound=SourceCheckpoint)
P = TypeVar("P", bound=Plan)
B = TypeVar("B", bound=Batch)


@dataclass(frozen=True, slots=True)
class Recovered(Generic[C]):
    """The checkpoint to continue from."""

    checkpoint: C
    repaired: bool = False
    """Neither a commit nor the copy has it: the next commit is due even if it brings no rows."""
    unpublished: bool = False
    """The copy of the checkpoint is older, or missing."""


@dataclass(frozen=True, slots=True)
class Resolved(Generic[P]):
    """A plan after the query of the table. The counts are for the log."""

    plan: P
    duplicates: int = 0
    overwritten: int = 0


@dataclass(frozen=True, slots=True)
class Receipt:
    """The name of a stored receipt, and when it was written (Unix seconds). `schema_change`: the name of the stored
    record of the change that the commit makes."""

    name: str
    written_ts: float
    schema_change: str | None = None


class SourceKind(Protocol[C, P, B]):
    """One source. Called by one thread, in the order of a turn: `recover` (first turn, and after every error), `plan`;
    then `skip` if the plan is empty, else `resolve` (if `unresolved`), `start`, `read`, `change_schema`; for a commit
    `settle`, `record`, `stamp`, and after it `publish`. The table is prepared before `read`.

    Every method but `skip`, `stamp` and `encode` may raise BlizzardError; RetryableError is retried after recovery.
    """

    def recover(self) -> Recovered[C]:
        """The position as the table has it. Discards what the source keeps from earlier turns.

        Raises RecoveryError when continuing could lose or double rows, LostRace when the table changed meanwhile.
        """
        ...

    def plan(self, checkpoint: C) -> P: ...

    def resolve(self, plan: P) -> Resolved[P]:
        """Query the table for what is new. The returned plan is resolved, and may be empty."""
        ...

    def start(self, plan: P) -> P:
        """The plan to read, completed with facts from storage, such as expected etags. Logs that it is planned."""
        ...

    def read(self, plan: P) -> B | None:
        """None: there is nothing to commit, and dead letters that say why are written; or nothing there says what
        columns the table has, and the next plans leave it out until more comes.

        Raises PermanentError, with nothing dead-lettered, when a failure is systemic.
        """
        ...

    def change_schema(self, plan: P, batch: B) -> P | None:
        """A plan that commits no rows but the change of the table's schema that these rows ask for; the batch is then
        read again. None: the rows are committed as they are.

        Raises RetryableError if the table's columns have changed since the batch was read.
        """
        ...

    def skip(self, plan: P) -> C:
        """The checkpoint to continue from without a commit, if nothing of the plan is read. Makes no request."""
        ...

    def has_caught_up(self, plan: P) -> bool:
        """Whether a draining run may end before this plan, although there is something to read: all that was there when
        it began, or when it last had caught up, is committed. Input that never pauses would keep it for ever."""
        ...

    def is_busy(self) -> bool:
        """Whether work goes on in the background that the next run would have to begin anew. A draining run that finds
        nothing more to do does not end before it is done."""
        ...

    def owes_commit(self, checkpoint: C) -> bool:
        """Called when a draining run finds nothing more to do. Whether a commit without rows is worth its cost, since
        the next run would have to repeat what this one has prepared."""
        ...

    def settle(self, plan: P, batch: B | None) -> C:
        """The checkpoint after the commit of `batch` (None: of a plan of which nothing is read), before `stamp`."""
        ...

    def record(self, plan: P, batch: B | None) -> Receipt:
        """Write what must be on storage before the commit: the dead letters, then the receipt."""
        ...

    def stamp(self, checkpoint: C, *, delta_version: int, receipt: Receipt) -> C:
        """The settled checkpoint as the commit stores it: with the next sequence, and the given values."""
        ...

    def encode(self, checkpoint: C) -> str:
        """The text for the commit's `userMetadata`. Two commits never have the same."""
        ...

    def further_txns(self, checkpoint: C) -> Txns:
        """Of what the commit has beside the source's own Txn, by app id: a version above that of every commit before,
        so that the log alone tells the position."""
        ...

    def publish(self, checkpoint: C, *, copy: bool) -> None:
        """Make a commit visible to others, such as by the copy of the checkpoint. If this fails, the commit stands."""
        ...

    def log_recovered(self, checkpoint: C, secs: TurnSecs) -> None: ...

    def log_committed(
        self, checkpoint: C, counts: BatchCounts, *, version: int, delta_checkpoint: bool, secs: TurnSecs
    ) -> None:
        """`version`: of the table, with this commit. `delta_checkpoint`: whether Delta wrote its own checkpoint after
        it."""
        ...


class InputDiscovery(Protocol):
    """Finds the input of one source that no event announced, so that its next plan can take it. For a source whose
    plans see all input by themselves, such as a log with offsets, the methods do nothing. Both may raise BlizzardError.
    """

    def discover_due(self, now_ts: float) -> None:
        """Called by a continuous run before each step. Does what is due by now and schedules the next time;
        what fails stays due. `now_ts`: seconds of a clock that never goes back."""
        ...

    def discover_all(self) -> None:
        """Called once by a draining run, before its first step."""
        ...
