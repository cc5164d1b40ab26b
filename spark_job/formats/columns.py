"""What formats whose files hold typed columns have in common: blocks of rows, and rows in the schema's columns."""

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import groupby
from typing import Any, ClassVar, TypeVar

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from blizzard.state.dead_letters import Stage
from spark_job.formats.converted_column import ConvertedColumn
from spark_job.formats.deferred import all_refused
from spark_job.formats.header import check_header
from spark_job.formats.protocol import Content, FileFault, Limits, Parsed, UnknownField
from spark_job.formats.records_table import ParsedParts, RecordsSchema
from spark_job.formats.typed_values import fit, misfit, plain_type, plain_values, unknown_fields

BLOCK_BYTES = 2 << 20
FIRST_ROWS = 1_024
"""Of the first block of a part of a file; it shows how large the rows are. A file says only how large they are when
they are encoded, which for values that repeat is much less."""
MAX_BLOCK_ROWS = 65_536

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchBlock:
    """Consecutive rows of one file. It has the file's columns that the schema names, in the file's types."""

    batch: pa.RecordBatch
    first_record: int
    unknown: tuple[str, ...]
    """The file's fields that no column is for."""

    @property
    def count(self) -> int:
        return int(self.batch.num_rows)

    @property
    def size_bytes(self) -> int:
        return int(self.batch.nbytes)


@dataclass(frozen=True, slots=True)
class FileColumns:
    """`wanted`: the names of a file's columns that the schema has. `unknown`: its fields that no column is for, at any
    depth."""

    wanted: list[str]
    unknown: tuple[str, ...]


class ColumnFormat(ABC):
    """A `Format` whose files hold typed columns, which are found by name."""

    first_day: ClassVar[date] = date.min
    """An earlier date in a file is refused."""

    def __init__(self, schema: StructType, limits: Limits) -> None:
        self._schema = schema
        self._limits = limits
        self._records = RecordsSchema(schema)

    @abstractmethod
    def blocks(self, content: Content, *, first_record: int) -> Iterator[BatchBlock]: ...

    def columns_of(self, found: pa.Schema) -> FileColumns:
        """Raises FileFault if a file with these columns does not fit the schema."""
        names = found.names
        check_header(names, self._schema)
        for field in self._schema:
            if field.name in names:
                why = misfit(plain_type(found.field(field.name).type), field.dataType, field.name)
                if why is not None:
                    raise FileFault(Stage.PARSE, why)
        wanted = [field.name for field in self._schema if field.name in names]
        whole = pa.struct([pa.field(field.name, plain_type(field.type)) for field in found])
        return FileColumns(wanted, tuple(unknown_fields(whole, self._schema, "")))

    def bounded(
        self, batches: Iterator[pa.RecordBatch], columns: FileColumns, number: int, first_record: int
    ) -> Iterator[BatchBlock]:
        """The batches as blocks from record `first_record` on. `number`: of the first row. Raises FileFault for a
        record above the limit."""
        for batch in batches:
            done = max(0, first_record - number)
            if done < batch.num_rows:
                # Dictionaries of two files may not fit into one.
                wanted = by_library("a column", partial(_plain, batch.slice(done)))
                if wanted.nbytes > self._limits.max_record_bytes:
                    self._check_records(wanted, number + done)
                yield BatchBlock(wanted, number + done, columns.unknown)
            number += batch.num_rows

    def _check_records(self, batch: pa.RecordBatch, number: int) -> None:
        limit = self._limits.max_record_bytes
        for row in range(batch.num_rows):
            if batch.slice(row, 1).nbytes > limit:
                reason = f"limit max_record_bytes: record {number + row} takes more than {limit} bytes"
                raise FileFault(Stage.PARSE, reason)

    def parse(self, blocks: Sequence[BatchBlock]) -> Parsed:
        parts = ParsedParts(self._records)
        for (_, names), alike in groupby(blocks, key=lambda block: (block.batch.schema, block.unknown)):
            table = pa.Table.from_batches([block.batch for block in alike]).combine_chunks()
            fitted = self._records.table(table.num_rows, partial(self._column, table))
            texts = dict(record_texts(table, sorted(fitted.reasons)))
            refused = {row: (why, texts[row]) for row, why in fitted.reasons.items()}
            unknown = dict.fromkeys(names, UnknownField(table.num_rows, 0))
            parts.add(table.num_rows, fitted.good(), fitted.good_rows, refused, unknown)
        return parts.parsed()

    def _column(self, table: pa.Table, name: str, data_type: DataType) -> ConvertedColumn | None:
        if name not in table.schema.names:
            return None
        chunks = table.column(name)
        return fit(chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks(), data_type, self.first_day)

    def decide(self, deferred: DataFrame) -> DataFrame:
        return all_refused(deferred, self._schema)


def by_library(what: str, call: Callable[[], T]) -> T:
    """What pyarrow raises for bytes that it cannot read becomes a FileFault."""
    try:
        return call()
    except (pa.ArrowException, UnicodeDecodeError, OverflowError) as error:
        raise FileFault(Stage.PARSE, f"not valid {what}: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise FileFault(Stage.PARSE, f"not valid {what}, or damaged: {error}") from error


def each_by_library(what: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Columns whose parts do not fit together are found here, and not when their records are parsed."""
    while (batch := by_library(what, lambda: next(batches, None))) is not None:
        by_library(what, partial(_validate, batch))
        yield batch


def _validate(batch: pa.RecordBatch) -> None:
    """Raises ArrowInvalid."""
    batch.validate()
    for column in batch.columns:
        _check_maps(column)


def _check_maps(values: pa.Array) -> None:
    """That the maps in it have as many values as keys, at which Arrow does not look."""
    kind, types = values.type, pa.types
    if types.is_map(kind):
        if len(values.keys) != len(values.items):
            raise pa.ArrowInvalid(f"a map has {len(values.keys)} keys and {len(values.items)} values")
        _check_maps(values.items)
    elif types.is_list(kind) or types.is_large_list(kind):
        _check_maps(values.values)
    elif types.is_struct(kind):
        for at in range(kind.num_fields):
            _check_maps(values.field(at))


def counted(what: str, batches: Iterator[pa.RecordBatch], rows: int, part: str) -> Iterator[pa.RecordBatch]:
    """Raises FileFault if these are not as many rows as the file says: pyarrow gives as many as the shortest column
    has, and later records would have other numbers."""
    found = 0
    for batch in batches:
        found += batch.num_rows
        if found > rows:
            break
        yield batch
    if found != rows:
        beyond = " or more" if found > rows else ""
        reason = f"not valid {what}, or damaged: it says that {part} has {rows:,} rows, and it has {found:,}{beyond}"
        raise FileFault(Stage.PARSE, reason)


def in_blocks(
    make: Callable[[int], Iterator[pa.RecordBatch]], content: Content, encoded_row_bytes: float
) -> Iterator[pa.RecordBatch]:
    """The rows that `make` gives in batches of so many rows, in batches of some MiB. It is called again when rows turn
    out to be much larger or smaller."""
    size, done, may_grow = min(FIRST_ROWS, rows_a_block(content, encoded_row_bytes)), 0, True
    while size:
        now, size, skipped = size, 0, done
        for batch in make(now):
            if skipped >= batch.num_rows:
                skipped -= batch.num_rows
                continue
            part, skipped = batch.slice(skipped), 0
            done += part.num_rows
            yield part
            fitting = rows_a_block(content, part.nbytes / part.num_rows)
            if fitting < now // 4 or (may_grow and fitting > now):
                size, may_grow = fitting, False
                break


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [plain_values(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def rows_a_block(content: Content, row_bytes: float) -> int:
    """`row_bytes`: of a row in memory, about."""
    return int(min(MAX_BLOCK_ROWS, max(1, min(BLOCK_BYTES, content.chunk_bytes) / max(1.0, row_bytes))))


def record_texts(table: pa.Table, rows: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """These rows as JSON: bytes in Base64, decimals as strings."""
    if not rows:
        return
    chosen = table.take(pa.array(rows, pa.int64()))
    columns: Mapping[str, list[Any]] = {name: _values(chosen.column(name)) for name in table.schema.names}
    for at, row in enumerate(rows):
        record = {name: values[at] for name, values in columns.items()}
        yield row, orjson.dumps(record, default=_shown, option=orjson.OPT_NON_STR_KEYS)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """As Python objects, or as text where Python has no object for the value."""
    kind = column.type
    if pa.types.is_string(kind):
        column = column.cast(pa.binary())
    elif pa.types.is_timestamp(kind):
        column = pa.chunked_array([chunk.view(pa.timestamp(kind.unit)).cast(pa.string()) for chunk in column.chunks])
    elif pa.types.is_date(kind):
        column = column.cast(pa.string())
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError):
        return [f"{scalar.type} that has no text" for scalar in column]
    return [_utf8_or_base64(value) if isinstance(value, bytes) else value for value in values]


def _utf8_or_base64(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def _shown(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, Decimal) else repr(value)
