"""What a file format is to the rest of the job.

A format turns the bytes of one object into blocks of records, and blocks into Arrow columns. It knows neither Spark's
session nor Delta. `registry.py` lists the formats; docs/formats.md says how to add one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar

from blizzard.state.dead_letters import Stage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from blizzard.config.ddl import Type
    from spark_job.formats.odd_data import OddRecord


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

    def check_file_bytes(self, total: int) -> None:
        """Raises FileFault if `total`, the decompressed bytes of one file so far, is above the limit."""
        if total > self.max_file_bytes:
            reason = f"limit max_file_bytes: it holds more than {self.max_file_bytes} bytes when decompressed"
            raise FileFault(Stage.DECOMPRESS, reason)


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
        FileFault for what does not decompress or is larger than the limit, and what storage raises.

        Each call copies the whole object, even when the batch takes only a slice of it, because `ObjectReader` in
        `blizzard/storage/base.py` reads forward only. The size of a slice is then measured in decompressed bytes that
        the format reads from the copy; with `stream` it is measured in stored bytes. Range reads would be made behind
        this method, without a change to the formats: see docs/decisions.md.
        """
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
        """The size in memory, about."""
        ...


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field of records that no column is for. `first`: the number of the first record that has it."""

    records: int
    first: int
    kind: "Type | None" = None
    """The narrowest type that holds its values; for a field of a file with types, its type there. None unless the
    source says `new_fields: add`."""


@dataclass(frozen=True, slots=True)
class Misfits:
    """Values that do not fit their column, and were kept beside it. `first`: the number of the first record with one;
    of those with a value that has a `kind`, if there are any: that one asks for a wider column."""

    records: int
    first: int
    kind: "Type | None" = None
    """The narrowest type that holds these values, whatever the column's is. None unless the source says
    `misfits: widen`."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What became of the records of some blocks, which are numbered through from 0."""

    records: "pa.Table"
    positions: Sequence[int] | None
    """The number of each record in `records`; None: all of them, in order."""
    refused: Sequence[tuple[int, str | None]]
    """The numbers of the other records, each with the reason of its dead letter. None: the format leaves the decision
    to Spark, see `Format.decide`."""
    refused_texts: Sequence[bytes]
    """The refused records themselves, as dead letters show them: one for each of `refused`, in the same order."""
    unknown: Mapping[str, UnknownField] = field(default_factory=dict)
    """By name; `address.zip` is a field of the column `address`."""
    misfits: Mapping[str, Misfits] = field(default_factory=dict)
    """By column, or the path of a field inside one, such as `address.zip`. Empty with `misfits: dead_letter`."""
    odd: Mapping[int, "OddRecord"] = field(default_factory=dict)
    """What the source's rules have to decide yet, by the number of the record: see `RuledFormat`."""

    @property
    def numbers(self) -> Sequence[int]:
        """The number of each record in `records`."""
        return range(self.records.num_rows) if self.positions is None else self.positions


MISFITS = "misfits"
"""A column of `Format.decide`."""

B = TypeVar("B", bound=Block)


class Format(Protocol[B]):
    """Reads one kind of file, with one schema and within `Limits`. Threads share it."""

    def blocks(self, content: Content, *, first_record: int) -> Iterator[B]:
        """The file's records from number `first_record` on, in order, in blocks of some MiB at most, however large the
        file and its parts are.

        A record that cannot be read goes into a block all the same, so that later records keep their numbers; `parse`
        refuses it. Raises FileFault when the rest of the file cannot be read, at whatever point of the file that turns
        out, and what storage raises. Every error that a library of the format raises because of the file's content has
        to become a FileFault. Any other exception fails the task, and with it the whole batch.
        """
        ...

    def parse(self, blocks: Sequence[B]) -> Parsed:
        """The records of these blocks, which may be of several files, as columns of the schema. Raises nothing that a
        file's content could cause."""
        ...

    def decide(self, deferred: "DataFrame") -> "DataFrame":
        """Decides, on the driver, the records that `parse` refused without a reason. Not called for a batch in which
        every refused record has one.

        `deferred` has the columns of `deferred_records_type`. It may also hold records that have a reason; they keep
        it. The result has one more column, `record`, a struct of the schema's columns, which is null for a refused
        record. Its `fault` also has a reason where Spark refuses a record. If the source keeps values that do not fit
        beside their columns, the result has the column `MISFITS`, too: null, or a JSON object with the names of those
        that were taken out of the record, each with its `kind_document`.
        """
        ...
