"""From the records of a CSV file to their fields, as columns of strings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import csv

from spark_job.formats.csv.dialect import Dialect
from spark_job.formats.reading import BOM

LONE_CR = "a carriage return outside quotes; expected line ends of LF or CRLF"


@dataclass(frozen=True, slots=True)
class Fields:
    """`reasons`: why records cannot be divided, by their number. `rows`: the numbers of the records in `table`."""

    table: pa.Table
    rows: Sequence[int]
    reasons: dict[int, str]


def divided(
    records: Sequence[bytes],
    broken: Mapping[int, str],
    columns: Sequence[str],
    wanted: Sequence[str],
    dialect: Dialect,
) -> Fields:
    """The fields of the wanted columns. `broken`: records that are known to be wrong, with the reason."""
    reasons = {**broken, **_lone_crs(records, dialect)}
    taken = [number for number in range(len(records)) if number not in reasons] if reasons else range(len(records))
    some = [records[number] for number in taken] if reasons else records
    if not some:
        return Fields(_schema(wanted).empty_table(), (), reasons)
    table, wrong = _read(some, columns, wanted, dialect)
    rows = [number for row, number in enumerate(taken) if row not in wrong] if wrong else taken
    if table.num_rows != len(rows):
        return _one_by_one(some, taken, reasons, columns, wanted, dialect)
    return Fields(table, rows, reasons | {taken[row]: why for row, why in wrong.items()})


def _read(
    records: Sequence[bytes], columns: Sequence[str], wanted: Sequence[str], dialect: Dialect
) -> tuple[pa.Table, dict[int, str]]:
    """With the records that have another number of fields."""
    wrong: dict[int, str] = {}

    def refuse(row: csv.InvalidRow) -> str:
        fields = "field" if row.actual_columns == 1 else "fields"
        wrong[row.number - 1] = f"found {row.actual_columns} {fields}, expected {row.expected_columns}"
        return "skip"

    # Without a line end Arrow takes an empty last field for quoted if the one before it is.
    data = b"\n".join([*records, b""])
    if data.startswith(BOM):
        data = BOM + data  # Arrow drops one at the start, where it is part of a value
    table = csv.read_csv(
        pa.py_buffer(data),
        csv.ReadOptions(use_threads=False, block_size=len(data) + 2, column_names=list(columns)),
        csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            escape_char=dialect.escape or False,
            newlines_in_values=True,
            invalid_row_handler=refuse,
        ),
        csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(wanted, pa.string()),
            null_values=list(dialect.null_values),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            include_columns=list(wanted),
        ),
    )
    return table, wrong


def _one_by_one(
    records: Sequence[bytes],
    numbers: Sequence[int],
    reasons: dict[int, str],
    columns: Sequence[str],
    wanted: Sequence[str],
    dialect: Dialect,
) -> Fields:
    """For records that Arrow divides into another number of rows than there are."""
    tables, rows, found = [_schema(wanted).empty_table()], [], dict(reasons)
    for number, record in zip(numbers, records, strict=True):
        table, wrong = _read([record], columns, wanted, dialect)
        if wrong or table.num_rows != 1:
            found[number] = wrong.get(0, "it cannot be divided into fields")
        else:
            tables.append(table)
            rows.append(number)
    return Fields(pa.concat_tables(tables), rows, found)


def _lone_crs(records: Sequence[bytes], dialect: Dialect) -> dict[int, str]:
    """Arrow takes a carriage return for the end of a line."""
    suspects = [number for number, record in enumerate(records) if b"\r" in record]
    return {number: LONE_CR for number in suspects if b"\r" in dialect.quoted.sub(b"", records[number])}


def _schema(wanted: Sequence[str]) -> pa.Schema:
    return pa.schema([pa.field(name, pa.string()) for name in wanted])
