"""What formats whose files hold typed columns have in common: blocks of rows, and rows in the schema's columns."""

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from blizzard.config.schema_rules import NO_RULES, SchemaRules
from blizzard.state.dead_letters import Stage
from spark_job.formats.converted_column import ConvertedColumn
from spark_job.formats.deferred import all_refused
from spark_job.formats.header import check_header
from spark_job.formats.odd_columns import OddColumns, TypeMisfit, check_type, respelled_schema
from spark_job.formats.odd_data import OddRecord, outside
from spark_job.formats.old_calendar import ANY, Earliest
from spark_job.formats.protocol import Content, FileFault, Limits, Parsed, UnknownField
from spark_job.formats.python_values import python_values
from spark_job.formats.records_table import Fitted, ParsedParts, RecordsSchema
from spark_job.formats.typed_values import fit, plain_type, plain_values, unknown_fields

BLOCK_BYTES = 2 << 20
FIRST_ROWS = 1_024
"""Of the first block of a part of a file; it shows how large the rows are. A file says only how large they are when
they are encoded, which for values that repeat is much less."""
MAX_BLOCK_ROWS = 65_536
_SMALL_BYTES = 256 << 10

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchBlock:
    """Consecutive rows of one file. It has the file's columns that the schema names, in the file's types."""

    batch: pa.RecordBatch
    first_record: int
    unknown: tuple[str, ...]
    """The file's fields that no column is for, whether they are in the batch or not."""
    earliest: Earliest
    size_bytes: int

    @property
    def count(self) -> int:
        return int(self.batch.num_rows)


@dataclass(frozen=True, slots=True)
class FileColumns:
    """`wanted`: the names of the file's columns to read: those that the schema has, and with rules that need them the
    others. `unknown`: its fields that no column is for, at any depth. `plain`: the columns to read, in the types that
    `parse` knows. `spelled`: the same as the schema spells them; None: as the file does. `maps`: the places of those
    with maps in them. `earliest`: of its dates and times."""

    wanted: list[str]
    unknown: tuple[str, ...]
    plain: pa.Schema
    spelled: pa.Schema | None
    maps: tuple[int, ...]
    earliest: Earliest


class ColumnFormat(ABC):
    """A `Format` whose files hold typed columns, which are found by name."""

    def __init__(self, schema: StructType, limits: Limits, rules: SchemaRules = NO_RULES) -> None:
        self._schema = schema
        self._limits = limits
        self._rules = rules
        self._records = RecordsSchema(schema, rules.rescues_misfits)

    @abstractmethod
    def blocks(self, content: Content, *, first_record: int) -> Iterator[BatchBlock]: ...

    def columns_of(self, found: pa.Schema, earliest: Earliest = ANY) -> FileColumns:
        """Raises FileFault if a file with these columns does not fit the schema."""
        plain = pa.schema([pa.field(field.name, plain_type(field.type)) for field in found])
        spelled = respelled_schema(plain, self._schema) if self._rules.ignores_case else plain
        check_header(plain.names, spelled.names, self._schema)
        self._check_types(spelled)
        names, unknown = spelled.names, tuple(unknown_fields(pa.struct([*spelled]), self._schema, ""))
        wanted = [names.index(name) for name in self._schema.names if name in names]
        if self._rules.looks_at_fields:
            wanted += [at for at, name in enumerate(names) if name not in self._schema.names]
        as_read = pa.schema([plain.field(at) for at in wanted])
        as_spelled = pa.schema([spelled.field(at) for at in wanted]) if self._rules.looks_at_records else None
        maps = tuple(at for at, place in enumerate(wanted) if _has_maps(found.field(place).type))
        return FileColumns(as_read.names, unknown, as_read, as_spelled, maps, earliest)

    def _check_types(self, found: pa.Schema) -> None:
        """Raises FileFault."""
        try:
            for field in self._schema:
                if field.name in found.names:
                    check_type(found.field(field.name).type, field, takes_out=self._rules.rescues_misfits)
        except TypeMisfit as error:
            raise FileFault(Stage.PARSE, str(error)) from error

    def bounded(
        self, batches: Iterator[pa.RecordBatch], columns: FileColumns, number: int, first_record: int
    ) -> Iterator[BatchBlock]:
        """The batches as blocks from record `first_record` on. `number`: of the first row. Raises FileFault for a
        record above the limit."""
        for batch in batches:
            done = max(0, first_record - number)
            if done < batch.num_rows:
                # Dictionaries of two files may not fit into one.
                wanted = by_library("a column", partial(_plain, batch.slice(done) if done else batch, columns))
                yield self.block(wanted, columns, number + done)
            number += batch.num_rows

    def block(self, batch: pa.RecordBatch, columns: FileColumns, number: int) -> BatchBlock:
        """`batch`: in plain types. Raises FileFault for a record above the limit."""
        size = size_of(batch)
        if size > self._limits.max_record_bytes:
            self._check_records(batch, number)
        return BatchBlock(batch, number, columns.unknown, columns.earliest, size)

    def _check_records(self, batch: pa.RecordBatch, number: int) -> None:
        limit = self._limits.max_record_bytes
        for row in range(batch.num_rows):
            if batch.slice(row, 1).nbytes > limit:
                reason = f"limit max_record_bytes: record {number + row} takes more than {limit} bytes"
                raise FileFault(Stage.PARSE, reason)

    def parse(self, blocks: Sequence[BatchBlock]) -> Parsed:
        parts = ParsedParts(self._records)
        for (_, names, earliest), alike in groupby(blocks, key=_likeness):
            table = pa.Table.from_batches([block.batch for block in alike]).combine_chunks()
            odd = OddColumns(table.schema, self._schema, takes_out=self._rules.rescues_misfits)
            fitted = self._records.table(table.num_rows, partial(self._column, table, odd, earliest))
            texts = dict(record_texts(table, sorted(fitted.reasons)))
            refused = {row: (why, texts[row]) for row, why in fitted.reasons.items()}
            unknown = {} if self._rules.looks_at_fields else dict.fromkeys(names, UnknownField(table.num_rows, 0))
            found = self._odd_records(table, odd, fitted)
            parts.add(table.num_rows, fitted.good(), fitted.good_rows, refused, unknown, found)
        return parts.parsed()

    def _column(
        self, table: pa.Table, odd: OddColumns, earliest: Earliest, name: str, data_type: DataType
    ) -> ConvertedColumn | None:
        values = odd.column(table, name)
        if values is None:
            return None
        return fit(values, data_type, earliest, takes_out=self._rules.rescues_misfits)

    def _odd_records(self, table: pa.Table, odd: OddColumns, fitted: Fitted) -> dict[int, OddRecord]:
        found: dict[int, OddRecord] = {}
        if self._rules.looks_at_fields:
            unknown = dict(odd.unknown(table))
            texts = dict(record_texts(table, [*unknown])) if self._rules.refuses_fields else {}
            found = {row: OddRecord(values, text=texts.get(row, b"")) for row, values in unknown.items()}
        for row, value in odd.taken_out(table, fitted.taken_out):
            if row not in fitted.reasons:
                found.setdefault(row, OddRecord()).misfits.append(value)
        if self._rules.rescues_fields:
            for record in found.values():
                record.unknown = outside(record.unknown, record.misfits)
        return found

    def decide(self, deferred: DataFrame) -> DataFrame:
        return all_refused(deferred, self._schema)


def _likeness(block: BatchBlock) -> tuple[pa.Schema, tuple[str, ...], Earliest]:
    return block.batch.schema, block.unknown, block.earliest


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


def each_by_library(what: str, batches: Iterator[pa.RecordBatch], maps: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Columns whose parts do not fit together are found here, and not when their records are parsed. `maps`: as in
    `FileColumns`."""
    while (batch := by_library(what, lambda: next(batches, None))) is not None:
        by_library(what, partial(validate, batch, maps))
        yield batch


def validate(batch: pa.RecordBatch, maps: Sequence[int]) -> None:
    """Raises ArrowInvalid."""
    batch.validate()
    for at in maps:
        _check_maps(batch.column(at))


def _has_maps(kind: pa.DataType) -> bool:
    """Whether `_check_maps` finds any in values of this type."""
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        return _has_maps(kind.value_type)
    if types.is_struct(kind):
        return any(_has_maps(kind.field(at).type) for at in range(kind.num_fields))
    return bool(types.is_map(kind))


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
    make: Callable[[int], Iterator[pa.RecordBatch]],
    content: Content,
    rows: int,
    encoded_bytes: int,
    *,
    may_grow: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The rows that `make` gives in batches of so many rows, in batches of some MiB at most. It is called again when
    rows turn out to be much larger, or smaller and batches `may_grow`. `rows`, `encoded_bytes`: of all of them."""
    size = min(FIRST_ROWS, rows_a_block(content, encoded_bytes / max(1, rows)))
    return make(size) if rows <= size else _in_blocks(make, content, size, may_grow=may_grow)


def _in_blocks(
    make: Callable[[int], Iterator[pa.RecordBatch]], content: Content, size: int, *, may_grow: bool
) -> Iterator[pa.RecordBatch]:
    done = 0
    while size:
        now, size, skipped = size, 0, done
        for batch in make(now):
            if skipped >= batch.num_rows:
                skipped -= batch.num_rows
                continue
            part, skipped = batch.slice(skipped) if skipped else batch, 0
            done += part.num_rows
            yield part
            fitting = rows_a_block(content, size_of(part) / part.num_rows)
            if fitting < now // 4 or (may_grow and fitting > now):
                size, may_grow = fitting, False
                break


def size_of(batch: pa.RecordBatch) -> int:
    """Of a small batch that of its whole buffers, which is quickly known, though the batch may be a slice of them."""
    held = batch.get_total_buffer_size()
    return int(held if held <= _SMALL_BYTES else batch.nbytes)


def _plain(batch: pa.RecordBatch, of_file: FileColumns) -> pa.RecordBatch:
    """In plain types, as the schema spells them."""
    spelled = of_file.spelled
    if spelled is None and batch.schema == of_file.plain:
        return batch.replace_schema_metadata(None)
    columns = [plain_values(column) for column in batch.columns]
    if spelled is None:
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    named = (
        column if column.type == field.type else column.view(field.type)
        for column, field in zip(columns, spelled, strict=True)
    )
    return pa.RecordBatch.from_arrays([*named], schema=spelled)


def rows_a_block(content: Content, row_bytes: float) -> int:
    """`row_bytes`: of a row in memory, about."""
    return int(min(MAX_BLOCK_ROWS, max(1, min(BLOCK_BYTES, content.chunk_bytes) / max(1.0, row_bytes))))


def record_texts(table: pa.Table, rows: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """These rows as JSON: bytes in Base64, decimals as strings."""
    if not rows:
        return
    chosen = table.take(pa.array(rows, pa.int64()))
    columns: Mapping[str, list[Any]] = {name: python_values(chosen.column(name)) for name in table.schema.names}
    for at, row in enumerate(rows):
        record = {name: values[at] for name, values in columns.items()}
        yield row, orjson.dumps(record, default=_shown, option=orjson.OPT_NON_STR_KEYS)


def _shown(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, Decimal) else repr(value)
