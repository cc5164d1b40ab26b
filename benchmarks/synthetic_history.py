"""A source with a long generated history: many known files, and a table that contains them.

The job ingests the first batch. This module generates all later commits as the job would have written them: for each
batch Parquet files with one row per source file, and a commit with the Txn and the job's state; then one Delta
checkpoint. The source files after the first batch are hard links to a few files, since nobody reads them again.
"""

import gzip
import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.contenders import date_of
from benchmarks.data import path_of
from benchmarks.records import event_lines
from blizzard.state.checkpoint import Checkpoint, decode, encode
from blizzard.state.watermark import split_path

NEW = 100
APP_ID = "blizzard:events:landing"
COPY = "_blizzard/events_landing_checkpoint.json"


@dataclass(frozen=True, slots=True)
class SyntheticHistory:
    """`count` files of one record below `folder`: `per_day` files in each subfolder, `batch` files in each commit."""

    folder: str
    count: int
    batch: int
    per_day: int

    def path(self, number: int) -> str:
        return path_of(min(number, self.count - 1) // self.per_day, number)

    def make(self) -> None:
        for number in range(self.count):
            path = self.path(number)
            if number < self.batch or number % self.per_day == 0:
                self._write(path, number)
            else:
                os.link(Path(self.folder, self.path(number - number % self.per_day)), f"{self.folder}/{path}")

    def first(self) -> list[str]:
        return [self.path(number) for number in range(self.batch)]

    @contextmanager
    def dropped(self, turn: int) -> Iterator[list[str]]:
        """Adds the new files of turn 1, 2, … to the newest subfolder, and deletes them at the end of the block, so that
        later turns find the same number of files."""
        first = self.count + NEW * (turn - 1)
        paths = [self.path(number) for number in range(first, first + NEW)]
        for number, path in enumerate(paths, first):
            self._write(path, number)
        try:
            yield paths
        finally:
            for path in paths:
                Path(self.folder, path).unlink()

    def _write(self, path: str, number: int) -> None:
        (line,) = event_lines(random.Random(number), number, 1)
        file = Path(self.folder, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(line + b"\n", mtime=0))


def append_commits(history: SyntheticHistory, table: str) -> None:
    """Appends the generated commits to a table that has only the job's commit of the first batch."""
    delta = DeltaTable(table)
    copy = Path(table, COPY)
    state = decode(copy.read_bytes(), pipeline="events", source="landing")
    rows = delta.to_pyarrow_table()
    version, marks = delta.version(), dict(state.partition_watermarks)
    for first in range(history.batch, history.count, history.batch):
        numbers = range(first, min(first + history.batch, history.count))
        version += 1
        paths = [history.path(number) for number in numbers]
        marks.update(split_path(path) for path in paths)
        state = replace(
            state,
            sequence=state.sequence + 1,
            delta_version=version - 1,
            watermark=paths[-1],
            partition_watermarks=dict(marks),
        )
        _commit(Path(table), version, state, _rows(rows, numbers, paths, state.sequence))
    if history.count > history.batch:
        copy.write_text(encode(state))
        DeltaTable(table).create_checkpoint()


def _rows(pattern: pa.Table, numbers: range, paths: list[str], sequence: int) -> pa.Table:
    """Copies of the first batch's rows, one per file, with the values of that file."""
    rows = pattern.slice(0, len(numbers)).to_pylist()
    for row, number, path in zip(rows, numbers, paths, strict=True):
        source = {**row["_source"], "file": path, "row": 0, "etag": f"{number:x}", "sequence": sequence}
        row.update(id=f"{number:012x}", n=number, date=date.fromisoformat(date_of(path)), _source=source)
    return pa.Table.from_pylist(rows, schema=pattern.schema)


def _commit(table: Path, version: int, state: Checkpoint, rows: pa.Table) -> None:
    """Writes one commit with one data file per day."""
    log = table / "_delta_log" / f"{version:020d}.json"
    now_ms = int(1000 * state.last_update_ts)
    actions: list[dict[str, Any]] = [
        {
            "commitInfo": {
                "timestamp": now_ms,
                "operation": "WRITE",
                "operationParameters": {"mode": "Append", "partitionBy": "[]"},
                "isBlindAppend": True,
                "userMetadata": encode(state),
            }
        },
        {"txn": {"appId": APP_ID, "version": state.sequence, "lastUpdated": now_ms}},
    ]
    days = rows.column("date").to_pylist()
    for day in sorted(set(days)):
        mine = rows.filter(pa.array([each == day for each in days]))
        actions.append(_file(table, f"date={day}/part-{version:05}.snappy.parquet", day, mine, now_ms))
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))


def _file(table: Path, path: str, day: date, rows: pa.Table, now_ms: int) -> dict[str, Any]:
    file = table / path
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows.drop_columns(["date"]), file)
    sources = rows.column("_source").to_pylist()
    edges = {
        name: {"n": edge(rows.column("n").to_pylist()), "_source": {"file": edge(row["file"] for row in sources)}}
        for name, edge in (("minValues", min), ("maxValues", max))
    }
    return {
        "add": {
            "path": path,
            "partitionValues": {"date": str(day)},
            "size": file.stat().st_size,
            "modificationTime": now_ms,
            "dataChange": True,
            "stats": json.dumps({"numRecords": rows.num_rows, **edges}),
        }
    }
