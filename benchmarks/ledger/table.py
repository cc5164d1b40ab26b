"""A table with the rows of many files of random names, whose source has neither receipts nor a ledger.

The job ingests some files itself. All later commits are generated in the form of these: Parquet files with the rows of
each file, and the Txn and the job's state in the commit.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.contenders import date_of
from benchmarks.ledger import random_names
from benchmarks.ledger.stored import IDENTITY
from blizzard.state.checkpoint import Checkpoint, decode, encode

HIGHEST = random_names.file_name((1 << 128) - 1)


@dataclass(frozen=True, slots=True)
class ManyFiles:
    """`files` files of `rows_per_file` rows each, `per_commit` of them in each generated commit."""

    files: int
    per_commit: int
    rows_per_file: int

    def commits(self) -> Iterator[list[str]]:
        """The sorted paths of each commit."""
        for first in range(0, self.files, self.per_commit):
            yield sorted(random_names.paths(min(self.per_commit, self.files - first), f"table {first}"))


def etag_of(path: str) -> str:
    """The etag of a file of the table: the digits of its UUID."""
    return path[-41:-5].replace("-", "")


def append_commits(table: Path, many: ManyFiles) -> None:
    """Appends the commits to a table that the job has made. Receipts and ledger are deleted, and all partitions have a
    watermark above every name, so that each later file is a suspect."""
    delta, copy = DeltaTable(str(table)), table / IDENTITY.copy_key
    state = decode(copy.read_bytes(), pipeline=IDENTITY.pipeline, source=IDENTITY.source)
    pattern, version = delta.to_pyarrow_table().slice(0, 1), delta.version()
    marks = dict.fromkeys(map(random_names.partition, range(random_names.PARTITIONS)), HIGHEST)
    first_row = 1_000_000
    for paths in many.commits():
        version += 1
        state = replace(state, sequence=state.sequence + 1, delta_version=version - 1, files={}, ledger=())
        state = replace(state, partition_watermarks=marks, receipt=f"{state.sequence:020d}-lost.json.gz")
        _commit(table, version, state, paths, _Rows(pattern, many.rows_per_file, first_row, state.sequence))
        first_row += len(paths) * many.rows_per_file
    copy.write_text(encode(state))
    for folder in ("receipts", "ledger"):
        shutil.rmtree(table / IDENTITY.state_prefix / folder, ignore_errors=True)
    DeltaTable(str(table)).create_checkpoint()


@dataclass(frozen=True, slots=True)
class _Rows:
    """Makes rows like the first one of `pattern`, numbered from `first` on."""

    pattern: pa.Table
    per_file: int
    first: int
    sequence: int

    def of(self, paths: Sequence[str], skipped: int) -> pa.Table:
        """`skipped`: files of the commit that come before these."""
        count, per_file = len(paths) * self.per_file, self.per_file
        numbers = range(self.first + skipped * per_file, self.first + skipped * per_file + count)
        schema = self.pattern.schema
        by_file = pa.array([number for number in range(len(paths)) for _ in range(per_file)])
        etags = pa.array([etag_of(path) for path in paths])
        own = {
            "id": pa.array([f"{number * 0x9E3779B97F4A7C15 % (1 << 64):016x}" for number in numbers]),
            "n": pa.array(numbers, pa.int64()),
            "date": pa.array([date.fromisoformat(date_of(paths[0]))] * count, pa.date32()),
        }
        source = {
            "file": pa.array(paths).take(by_file),
            "etag": etags.take(by_file),
            "row": pa.array([*range(per_file)] * len(paths), pa.int64()),
            "sequence": pa.array([self.sequence] * count, pa.int64()),
        }
        kind = schema.field("_source").type
        given = self.pattern.column("_source")[0].as_py()
        own["_source"] = pa.StructArray.from_arrays(
            [_column(source.get(field.name), given[field.name], field.type, count) for field in kind],
            fields=[*kind],
        )
        columns = [_column(own.get(f.name), self.pattern.column(f.name)[0].as_py(), f.type, count) for f in schema]
        return pa.Table.from_arrays(columns, schema=schema)


def _column(made: pa.Array | None, given: Any, kind: pa.DataType, count: int) -> pa.Array:
    """The values that were made, or the same one in all rows."""
    return pa.repeat(pa.scalar(given, kind), count) if made is None else made.cast(kind)


def _commit(table: Path, version: int, state: Checkpoint, paths: Sequence[str], rows: _Rows) -> None:
    """One commit, with a data file for each date."""
    now_ms = int(1000 * state.last_update_ts)
    info = {"timestamp": now_ms, "operation": "WRITE", "operationParameters": {"mode": "Append", "partitionBy": "[]"}}
    actions: list[dict[str, Any]] = [
        {"commitInfo": {**info, "isBlindAppend": True, "userMetadata": encode(state)}},
        {"txn": {"appId": IDENTITY.app_id, "version": state.sequence, "lastUpdated": now_ms}},
    ]
    by_date: dict[str, list[str]] = {}
    for path in paths:
        by_date.setdefault(date_of(path), []).append(path)
    skipped = 0
    for day, mine in by_date.items():
        file = f"date={day}/part-{version:05}.snappy.parquet"
        actions.append(_file(table, file, day, rows.of(mine, skipped), now_ms))
        skipped += len(mine)
    log = table / "_delta_log" / f"{version:020d}.json"
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))


def _file(table: Path, path: str, day: str, rows: pa.Table, now_ms: int) -> dict[str, Any]:
    file = table / path
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows.drop_columns(["date"]), file)
    source = rows.column("_source").combine_chunks()
    files, sequence, name = source.field("file"), source.field("sequence")[0].as_py(), source.field("source")[0].as_py()
    numbers = rows.column("n")
    edges = {
        key: {
            "n": numbers[at].as_py(),
            "_source": {"source": name, "file": files[at].as_py(), "sequence": sequence},
        }
        for key, at in (("minValues", 0), ("maxValues", len(numbers) - 1))
    }
    return {
        "add": {
            "path": path,
            "partitionValues": {"date": day},
            "size": file.stat().st_size,
            "modificationTime": now_ms,
            "dataChange": True,
            "stats": json.dumps({"numRecords": rows.num_rows, **edges}),
        }
    }
