"""Reconciles the source with the table: each record must be exactly one row, or a dead letter.

It shares no code or counter with the program under test: it lists and reads the objects itself, and reads the table
with another engine (deltalake), so that a wrong counter cannot hide a lost record.
"""

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable

SHOWN = 5

Record = tuple[str, int]
"""A path and the 0-based number of a record in it."""


@dataclass(frozen=True, slots=True)
class Source:
    """The content of the source's objects: good records with their values, and those that must be dead-lettered."""

    objects: int
    records: Mapping[Record, Mapping[str, Any]]
    bad_records: frozenset[Record]
    bad_files: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The result. All lists but the dead letters are empty if every record was ingested once or dead-lettered."""

    files: int
    rows_in: int
    rows_out: int
    missing: list[Record] = field(default_factory=list)
    doubled: list[Record] = field(default_factory=list)
    changed: list[Record] = field(default_factory=list)
    """In the table, with other values than in the source."""
    unexpected: list[Record] = field(default_factory=list)
    """In the table, but not in the source."""
    silent: list[str] = field(default_factory=list)
    """Bad input without a dead letter."""
    dead_letters: list[Mapping[str, Any]] = field(default_factory=list)

    missing_files: list[str] = field(default_factory=list)
    """Of which the table has no record, and nobody a dead letter."""

    @property
    def good(self) -> bool:
        return not (self.missing or self.doubled or self.changed or self.unexpected or self.silent)

    def lines(self) -> Iterator[str]:
        """As text, one fact per line."""
        yield f"files        {self.files}"
        yield f"rows in      {self.rows_in}"
        yield f"rows out     {self.rows_out}"
        for name in ("missing", "doubled", "changed", "unexpected", "silent"):
            found = getattr(self, name)
            yield f"{name:<12} {len(found)}" + (f"  {found[:SHOWN]}" if found else "")
        yield f"dead letters {len(self.dead_letters)}"
        for letter in self.dead_letters:
            row = f" record {letter['row']}" if "row" in letter else ""
            yield f"  {letter['path']}{row}: {letter['stage']}: {letter['error']}"


def read_source(objects: Iterable[tuple[str, bytes]], required: str) -> Source:
    """Parse gzipped NDJSON, CSV, JSON arrays and Parquet, by extension. A record is bad if it has no value for
    `required`, or another number of fields than its header."""
    records: dict[Record, Mapping[str, Any]] = {}
    bad_records: set[Record] = set()
    bad_files: set[str] = set()
    count = 0
    for path, body in objects:
        count += 1
        try:
            found = _found_in(path, body)
        except (OSError, EOFError):
            bad_files.add(path)
            continue
        for row, values in enumerate(found):
            if values is None or values.get(required) is None:
                bad_records.add((path, row))
            else:
                records[path, row] = values
    return Source(count, records, frozenset(bad_records), frozenset(bad_files))


def _found_in(path: str, body: bytes) -> list[Mapping[str, Any] | None]:
    """The records of a file, None for each that cannot be read. Raises OSError or EOFError."""
    if path.endswith(".csv"):
        return _csv_records(body)
    if path.endswith(".json"):
        return list(json.loads(body))
    if path.endswith(".parquet"):
        return list(pq.read_table(io.BytesIO(body)).to_pylist())
    lines = gzip.decompress(body).splitlines() if body else []
    return [_values(line) for line in lines if line.strip()]


def _csv_records(body: bytes) -> list[Mapping[str, Any] | None]:
    """Of files in which numbers, and nothing else, are not quoted."""
    header, *rows = csv.reader(io.StringIO(body.decode(), newline=""), quoting=csv.QUOTE_NONNUMERIC)
    return [dict(zip(header, row, strict=True)) if len(row) == len(header) else None for row in rows]


def _values(line: bytes) -> Mapping[str, Any] | None:
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def _values_in(row: Mapping[str, Any], columns: Sequence[str] | None) -> Mapping[str, Any]:
    """The values of a record that a row has: in columns, and those that no column could hold in `_rescued`."""
    of_record = {name: value for name, value in row.items() if name not in ("date", "_source", "_rescued")}
    return _values_of({**of_record, **json.loads(row.get("_rescued") or "{}")}, columns)


def _values_of(record: Mapping[str, Any], columns: Sequence[str] | None) -> Mapping[str, Any]:
    """Those of `columns`, without nulls."""
    return {name: value for name, value in record.items() if value is not None and (columns is None or name in columns)}


def reconcile(
    source: Source,
    table_uri: str,
    storage_options: Mapping[str, str],
    dead_letters: Sequence[Mapping[str, Any]],
    columns: Sequence[str] | None = None,
) -> Reconciliation:
    """Compare the source with the table at `table_uri`: which records it has, and their values of `columns`; None:
    every value of them."""
    read = None if columns is None else [*columns, "_source"]
    table = DeltaTable(table_uri, storage_options=dict(storage_options)).to_pyarrow_table(columns=read)
    return compare(source, table.to_pylist(), dead_letters, columns)


def compare(
    source: Source,
    rows: Iterable[Mapping[str, Any]],
    dead_letters: Sequence[Mapping[str, Any]],
    columns: Sequence[str] | None = None,
) -> Reconciliation:
    """As `reconcile`, for rows that were already read."""
    found: Counter[Record] = Counter()
    changed: list[Record] = []
    for row in rows:
        record = (row["_source"]["file"], row["_source"]["row"])
        found[record] += 1
        expected = source.records.get(record)
        if expected is not None and _values_in(row, columns) != _values_of(expected, columns):
            changed.append(record)
    letters = {(letter["path"], letter.get("row")) for letter in dead_letters}
    silent = [path for path in source.bad_files if (path, None) not in letters]
    silent += [f"{path}#{row}" for path, row in source.bad_records if (path, row) not in letters]
    known = {path for path, _ in (*found, *letters)}
    return Reconciliation(
        files=source.objects,
        rows_in=len(source.records),
        rows_out=found.total(),
        missing=sorted(source.records.keys() - found.keys()),
        doubled=sorted(record for record, times in found.items() if times > 1),
        changed=sorted(changed),
        unexpected=sorted(found.keys() - source.records.keys()),
        silent=sorted(silent),
        missing_files=sorted({path for path, _ in source.records} - known),
        dead_letters=sorted(dead_letters, key=lambda letter: (letter["path"], letter.get("row", -1))),
    )
