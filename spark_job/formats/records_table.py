"""From converted columns to the records that fit a schema, and the reasons why the others do not."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import pyarrow as pa
from pyspark.sql.types import DataType, StructType

from spark_job.formats.converted_column import ConvertedColumn, TakenOut, missing_in
from spark_job.formats.nested_columns import column_type
from spark_job.formats.odd_data import OddRecord
from spark_job.formats.protocol import Parsed, UnknownField
from spark_job.formats.refusals import does_not_fit, is_missing
from spark_job.formats.unknown_counts import UnknownCounts

NOTHING_ODD: Mapping[int, OddRecord] = {}
ColumnOf = Callable[[str, DataType], ConvertedColumn | None]
"""The column of that name and type; None if the file has none."""


@dataclass(frozen=True)
class RecordsSchema:
    """The columns of a record. A column that a file lacks is null."""

    columns: StructType
    takes_out: bool = False
    """A value that does not fit becomes null where it may, instead of its record being refused."""

    @cached_property
    def arrow(self) -> pa.Schema:
        """Every column nullable."""
        return pa.schema([pa.field(field.name, column_type(field.dataType)) for field in self.columns])

    def table(self, count: int, column_of: ColumnOf) -> "Fitted":
        """Of `count` records."""
        made, reasons, taken_out = [], dict[int, str](), list[TakenOut]()
        for field in self.columns:
            column = column_of(field.name, field.dataType)
            if column is None:
                column = ConvertedColumn(pa.nulls(count, column_type(field.dataType)))
            if self.takes_out:
                column = column.without_misfits(field)
                taken_out += (TakenOut((field.name, *one.path), one.rows) for one in column.taken_out)
            made.append(column.values)
            for row in column.doubtful:
                reasons.setdefault(row, does_not_fit(field.name, field.dataType))
            for missing in missing_in(field, column, None):
                for row in missing.rows:
                    reasons.setdefault(row, is_missing(missing.path))
        return Fitted(pa.Table.from_arrays(made, schema=self.arrow), reasons, taken_out)


@dataclass(frozen=True, slots=True)
class Fitted:
    """`reasons`: why rows of the table must not be used, by row. `taken_out`: with paths from the record on."""

    table: pa.Table
    reasons: dict[int, str]
    taken_out: Sequence[TakenOut] = ()

    @property
    def good_rows(self) -> Sequence[int]:
        return range(self.table.num_rows) if not self.reasons else self._good_rows()

    def _good_rows(self) -> list[int]:
        return [row for row in range(self.table.num_rows) if row not in self.reasons]

    def good(self) -> pa.Table:
        return self.table.take(pa.array(self._good_rows(), pa.int64())) if self.reasons else self.table


class ParsedParts:
    """Puts what became of consecutive records together, part by part."""

    def __init__(self, schema: RecordsSchema) -> None:
        self._tables = [schema.arrow.empty_table()]
        self._positions: list[Sequence[int]] = []
        self._refused: list[tuple[int, str]] = []
        self._texts: list[bytes] = []
        self._unknown = UnknownCounts()
        self._odd: dict[int, OddRecord] = {}
        self._start = 0

    def add(
        self,
        count: int,
        table: pa.Table,
        rows: Sequence[int],
        refused: Mapping[int, tuple[str, bytes]],
        unknown: Mapping[str, UnknownField],
        odd: Mapping[int, OddRecord] = NOTHING_ODD,
    ) -> None:
        """The next `count` records: those at `rows` are in the table, the others are refused, each with its reason and
        text. Records are numbered from 0 in each part."""
        self._tables.append(table)
        self._positions.append(
            range(self._start, self._start + count) if not refused else [self._start + row for row in rows]
        )
        for number in sorted(refused):
            reason, text = refused[number]
            self._refused.append((self._start + number, reason))
            self._texts.append(text)
        self._unknown.add_part(unknown, self._start)
        self._odd.update((self._start + row, record) for row, record in odd.items())
        self._start += count

    def parsed(self) -> Parsed:
        positions = [*chain.from_iterable(self._positions)] if self._refused else None
        records, unknown = pa.concat_tables(self._tables), self._unknown.found
        return Parsed(records, positions, self._refused, self._texts, unknown, odd=self._odd)
