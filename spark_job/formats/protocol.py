"""What a file format is to the rest of the job.

A format turns the bytes of one object into blocks of records, and blocks into Arrow columns. It knows neither Spark's
session nor Delta. `registry.py` lists the formats; docs/formats.md says how to add one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar

from blizzard.state.dead_letters import Stage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class FileFault(Exception):
    """The file as a whole cannot be ingested and becomes a dead letter. `stage` says how far reading it got."""

    def __init__(self, stage: Stage, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Limits:
    """What one file may cost. A file that exceeds a limit becomes a dead letter that names the limit."""

    max_record_bytes: int = 16 << 20
    max_file_bytes: int = 64 << 30
    """Decompressed."""


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class Content(Protocol):
    """One object, opened for a format. A format calls `stream` or `random_access`, once."""

    @property
    def path(self) -> str: ...

    @property
    def chunk_bytes(self) -> int:
        """How much to read at a time. It is smaller for a file that is read in slices, since a slice ends between two
        blocks."""
        ...

    def stream(self) -> Readable:
        """The decompressed bytes, forward only. Its `read` raises FileFault for what does not decompress, and what
        storage raises."""
        ...

    def random_access(self) -> BinaryIO:
        """The decompressed bytes, seekable: in memory if the object is small, else in a temporary file. Raises
        FileFault for what does not decompress or is larger than the limit, and what storage raises."""
        ...


class Block(Protocol):
    """Consecutive records of one file. What they are, only their format knows: bytes to parse, or an Arrow batch."""

    @property
    def first_record(self) -> int:
        """The number of its first record, counted from 0 at the file's start."""
        ...

    @property
    def count(self) -> int: ...

    @property
    def size_bytes(self) -> int:
        """In memory, about."""
        ...


@dataclass(frozen=True, slots=True)
class Parsed:
    """What became of the records of some blocks, which are numbered through from 0."""

    records: "pa.Table"
    positions: Sequence[int] | None
    """The number of each record in `records`; None: all of them, in order."""
    refused: Sequence[tuple[int, str | None]]
    """The numbers of the other records, each with the reason of its dead letter. None: the format leaves the decision
    to Spark, see `Format.decide`."""
    refused_texts: Sequence[bytes] = ()
    """The refused records themselves, as dead letters show them, in the order of `refused`."""


B = TypeVar("B", bound=Block)


class Format(Protocol[B]):
    """Reads one kind of file, with one schema and within `Limits`. Threads share it."""

    def blocks(self, content: Content, *, first_record: int) -> Iterator[B]:
        """The file's records from number `first_record` on, in order, in blocks of some MiB at most.

        A record that cannot be read goes into a block all the same, so that later records keep their numbers; `parse`
        refuses it. Raises FileFault when the rest of the file cannot be read, and what storage raises.
        """
        ...

    def parse(self, blocks: Sequence[B]) -> Parsed:
        """The records of these blocks, which may be of several files, as columns of the schema. Raises nothing that a
        file's content could cause."""
        ...

    def decide(self, deferred: "DataFrame") -> "DataFrame":
        """On the driver: decides the records that `parse` refused without a reason.

        `deferred` has the columns of `deferred_records_type`. The result has one more, `record`, a struct of the
        schema's columns, and its `fault` is completed where Spark refuses a record.
        """
        ...
