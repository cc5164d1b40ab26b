"""What the ingest loop needs of the table and of the reader. Delta and Spark implement it, and so do tests' fakes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from blizzard.state.batch import PlannedFile
from blizzard.state.dead_letters import Stage
from blizzard.state.delta_log import Commit


class FailureKind(StrEnum):
    """Errors that are not the file's own."""

    DENIED = "denied"
    """Permissions: when most of a batch has it, it is everybody's."""
    SYSTEMIC = "everybodys"
    """Missing or expired credentials, a key that is disabled, a bucket that is gone, a disk that fails: never the
    file's."""
    TRANSIENT = "passing"
    """Storage failed until the retries were used up; a later try may succeed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What reading one file (or a slice of it) gave.

    `records_read` counts from the file's start, also what earlier slices read; `rows` and `dead_records` are this
    batch's. With an `error` none of its rows are in the batch.
    """

    path: str
    etag: str
    size: int
    rows: int = 0
    dead_records: int = 0
    records_read: int = 0
    finished: bool = True
    stage: Stage | None = None
    error: str | None = None
    trouble: FailureKind | None = None


@dataclass(frozen=True, slots=True)
class Txn:
    """A Txn of the table: whose, its number, and when it was set (Unix seconds, if that is known)."""

    app_id: str
    version: int
    updated_ts: float | None


class Rows(Protocol):
    """The rows of a batch, read and held until they are committed or thrown away."""

    @property
    def outcomes(self) -> Sequence[Outcome]: ...

    @property
    def held(self) -> int:
        """How many rows wait for the commit, counted where they were written."""
        ...

    @property
    def write_share(self) -> float:
        """What part, 0 to 1, of the tasks' time went into writing."""
        ...

    def put_dead_records(self) -> None:
        """Write the letters of the records that were refused; before the commit, so that none is lost with it."""
        ...

    def release(self) -> None: ...


class Reader(Protocol):
    def read(self, files: Sequence[PlannedFile], *, sequence: int, replacing: bool = False) -> Rows:
        """`replacing`: the rows go to `Table.replace`, in place of what the table holds of these files.

        Raises StorageError or StorageUnavailable when the table's storage takes no rows, RetryableError when reading
        broke off.
        """
        ...


class Table(Protocol):
    """One Delta table, as seen by one source."""

    def prepare(self) -> None:
        """Add the columns that an existing table lacks. Raises PermanentError when its columns do not fit."""
        ...

    def newest_version(self) -> int:
        """-1 when there is no table yet."""
        ...

    def commits(self, limit: int, *, above: int = -1) -> Iterator[Commit]:
        """The newest commits, newest first."""
        ...

    def commit_at(self, version: int) -> Commit | None:
        """One commit; None when it is not there (yet, or any more). One request."""
        ...

    def checkpoints_at(self, version: int) -> bool:
        """Whether Delta makes a checkpoint of its own out of this version; by its rule, without a request."""
        ...

    def txn_version(self, app_id: str) -> int | None:
        """From the snapshot: exact, whatever log clean-up removed, and slow."""
        ...

    def txns(self) -> Sequence[Txn]:
        """The newest Txn of every app id of the snapshot, in no order; slow."""
        ...

    def loose_files(self) -> Sequence[str]:
        """Parquet files in the table's folder that no commit has added; lists the whole folder."""
        ...

    def holds_rows(self) -> bool:
        """Whether any row of this source is in the table. Raises RecoveryError when none is, but rows of the same files
        under a name that the pipeline no longer has."""
        ...

    def files_after(self, sequence: int) -> Mapping[str, int]:
        """Path to highest `_source.row` of the files of this source that commits after `sequence` hold."""
        ...

    def etags(self, paths: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """The etags under which the table holds rows of these files of this source; without those it has not."""
        ...

    def append(self, rows: Rows | None, *, sequence: int, user_metadata: str) -> None:
        """One commit of rows (None: of nothing but the state).

        Raises LostRace when another job's commit of this source came first. A version that the table has already seen
        is skipped in silence, so the caller looks at what was committed.
        """
        ...

    def replace(self, rows: Rows, paths: Sequence[str], *, sequence: int, user_metadata: str) -> None:
        """One commit that takes out all rows of `paths` of this source and puts in `rows`; errors as `append`."""
        ...
