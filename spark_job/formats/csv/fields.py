"""From the records of a CSV file to their fields, as columns of strings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import csv

from spark_job.formats.csv.dialect import Dialect
from spark_job.formats.reading import BOM
from spark_job.formats.record_list import text_of

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
    text = text_of(records)
    taken: Sequence[int] = range(len(records))
    reasons = {**(lone_crs(records, dialect) if b"\r" in text else {}), **broken}
    if reasons:
        numbers = [number for number in taken if number not in reasons]
        text, taken = b"\n".join(records[number] for number in numbers), numbers
    if dialect.escape is not None and dialect.escape.encode() in text:
        text = b"\n".join(dialect.without_escapes(records[number]) for number in taken)
    if not taken:
        return Fields(_schema(wanted).empty_table(), (), reasons)
    table, wrong = _read(text, columns, wanted, dialect)
    rows = [number for row, number in enumerate(taken) if row not in wrong] if wrong else taken
    if table.num_rows != len(rows):
        return _one_by_one(records, taken, reasons, columns, wanted, dialect)
    return Fields(table, rows, reasons | {taken[row]: why for row, why in wrong.items()})


def _read(
    text: bytes, columns: Sequence[str], wanted: Sequence[str], dialect: Dialect
) -> tuple[pa.Table, dict[int, str]]:
    """With the records that have another number of fields."""
    wrong: dict[int, str] = {}

    def refuse(row: csv.InvalidRow) -> str:
        fields = "field" if row.actual_columns == 1 else "fields"
        wrong[row.number - 1] = f"found {row.actual_columns} {fields}, expected {row.expected_columns}"
        return "skip"

    # Without a line end Arrow takes an empty last field for quoted if the one before it is. A mark at the start, which
    # is part of a value there, it drops.
    text = b"".join((BOM if text.startswith(BOM) else b"", text, b"\n"))
    table = csv.read_csv(
        pa.py_buffer(text),
        csv.ReadOptions(use_threads=False, block_size=len(text) + 2, column_names=list(columns)),
        csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            newlines_in_values=dialect.may_span_lines(text),
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
    """For records at these numbers that Arrow divides into another number of rows than there are."""
    tables, rows, found = [_schema(wanted).empty_table()], [], dict(reasons)
    for number in numbers:
        table, wrong = _read(dialect.without_escapes(records[number]), columns, wanted, dialect)
        if wrong or table.num_rows != 1:
            found[number] = wrong.get(0, "it cannot be divided into fields")
        else:
            tables.append(table)
            rows.append(number)
    return Fields(pa.concat_tables(tables), rows, found)


def lone_crs(records: Sequence[bytes], dialect: Dialect) -> dict[int, str]:
    """Arrow takes a carriage return for the end of a line."""
    suspects = [number for number, record in enumerate(records) if b"\r" in record]
    return {number: LONE_CR for number in suspects if b"\r" in dialect.quoted.sub(b"", records[number])}


def _schema(wanted: Sequence[str]) -> pa.Schema:
    return pa.schema([pa.field(name, pa.string()) for name in wanted])
