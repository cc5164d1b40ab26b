"""What the loop needs of a reader of files: the rows of a batch, and an outcome for each file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from blizzard.state.batch import PlannedFile
from blizzard.state.dead_letters import DeadLetter, Stage
from blizzard.state.unknown_fields import UnknownFields
from spark_job.ports.offset_range import OffsetRange
from spark_job.ports.rows import Rows


class FailureKind(StrEnum):
    """Failures that are not the file's fault."""

    DENIED = "denied"
    """Access was denied. Systemic if most of a batch is denied."""
    SYSTEMIC = "systemic"
    """Missing or expired credentials, a disabled key, a missing bucket, a failing disk: never the file's fault."""
    TRANSIENT = "transient"
    """Storage failed until the retries were used up; a later attempt may succeed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of reading one file, or one slice of it.

    `records_read` counts from the start of the file and includes earlier slices; `rows` and `dead_records` are those of
    this batch. With an `error`, the batch holds none of the file's rows.
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
    failure_kind: FailureKind | None = None
    """None: the error is the file's own."""
    first_ts: float | None = None
    """Of topics: the time of the first message of the range (Unix seconds). None: there is no message, or it has no
    time."""


class FileRows(Rows, Protocol):
    """The rows of a batch of files."""

    @property
    def outcomes(self) -> Sequence[Outcome]: ...

    @property
    def row_count(self) -> int:
        """Number of rows that wait for the commit, counted when they were written."""
        ...

    @property
    def unknown_fields(self) -> UnknownFields:
        """The fields of these files that no column is for."""
        ...

    @property
    def misfits(self) -> UnknownFields:
        """The columns with values that do not fit them, and were kept beside them."""
        ...

    def refused_records(self) -> Iterator[DeadLetter]:
        """The refused records, sorted by file and row. Writes nothing. Raises as `write_dead_records` does."""
        ...

    def write_dead_records(self, attempt: str = "") -> None:
        """Write the dead letters of the refused records. Called before the commit, so that a crash loses none.
        `attempt`: as `DeadLetters.write_records` has it."""
        ...


R = TypeVar("R", bound=FileRows, covariant=True)


class RangesReader(Protocol[R]):
    """Reads messages of topics. `Outcome` has the partition as path, the topic's id as etag, and the end of its range
    as `records_read`."""

    def read_ranges(self, ranges: Sequence[OffsetRange], *, sequence: int) -> R | None:
        """None: messages have to show the columns first, and from the beginnings of these ranges to the ends that the
        partitions have now there are none. Errors as for `Reader.read`; what the brokers refuse is in the outcomes,
        with a `failure_kind`."""
        ...


class Reader(Protocol[R]):
    def read(self, files: Sequence[PlannedFile], *, sequence: int, replacing: bool = False) -> R:
        """`replacing`: the rows go to `FileTable.replace`, in place of the rows that the table holds of these files.

        Raises StorageError or StorageUnavailable when the table's storage takes no rows, RetryableError when the read
        was interrupted.
        """
        ...
