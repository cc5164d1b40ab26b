"""The fields in the beginning of CSV files, as the reader of CSV divides them."""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_job.formats.csv.dialect import Dialect
from spark_job.formats.csv.fields import divided
from spark_job.formats.csv.records import OPEN_QUOTE, RecordReader
from spark_job.formats.header import named
from spark_job.formats.protocol import Limits
from spark_job.infer.heads import Head
from spark_job.infer.texts import whole_lines

_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class CsvPart:
    """The fields of `count` records of one file, by column; null where a field is. `names`: all of the header's."""

    names: tuple[str, ...]
    columns: Mapping[str, Sequence[str | None]]
    count: int
    broken: int


def csv_parts(heads: Sequence[Head], options: Mapping[str, Any]) -> Iterator[CsvPart]:
    """`options`: of the format, with every default filled in. Raises FileFault for a record beyond the usual limit.
    Files of another encoding, and without a record, have no part. A record whose quote does not end is left out: it may
    be cut off."""
    dialect = Dialect.of(options)
    for head in heads:
        text = whole_lines(head.data, options["encoding"], is_whole=head.is_whole)
        if text is not None and (head.is_whole or "\n" in text):
            records = _records(text, dialect)
            names = _names(dialect, records)
            if names:
                yield _part(names, records[1:] if dialect.header is True else records, dialect)


def _records(text: str, dialect: Dialect) -> list[bytes]:
    reader = RecordReader(io.BytesIO(text.encode(errors="replace")), dialect, Limits(), _CHUNK_BYTES)
    return [record for part in reader for at, record in enumerate(part.records) if part.broken.get(at) != OPEN_QUOTE]


def _names(dialect: Dialect, records: Sequence[bytes]) -> tuple[str, ...]:
    """Without a header `c1`, `c2`, …; none if there is no record to count the fields of."""
    if not isinstance(dialect.header, bool):
        return tuple(dialect.header)
    if not records:
        return ()
    fields = _divide(records[0], dialect)
    return tuple(fields) if dialect.header else tuple(f"c{at + 1}" for at in range(len(fields)))


def _divide(record: bytes, dialect: Dialect) -> list[str]:
    import csv

    quoting: Mapping[str, Any] = {"quotechar": dialect.quote} if dialect.quote else {"quoting": csv.QUOTE_NONE}
    try:
        lines = dialect.without_escapes(record).decode().splitlines(keepends=True)
        return next(csv.reader(lines, delimiter=dialect.delimiter, **quoting), [])
    except csv.Error:
        return []


def _part(names: tuple[str, ...], records: Sequence[bytes], dialect: Dialect) -> CsvPart:
    """Without columns that have neither a name nor a value."""
    full = named(names)
    unique = [name if name not in full[:at] else f"\0{at}" for at, name in enumerate(full)]
    wanted = [name for name in unique if not name.startswith("\0")]
    fields = divided(records, {}, unique, wanted, dialect)
    columns = {name: fields.table.column(name).to_pylist() for name in wanted}
    columns = {name: values for name, values in columns.items() if name in names or any(map(bool, values))}
    return CsvPart(names, columns, fields.table.num_rows, len(fields.reasons))
