"""A source of many files and the table that has their rows, written directly: objects, data files, log, ledger."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.ledger import random_names
from benchmarks.ledger.stored import IDENTITY
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.ledger.ledger import ledger_folder
from blizzard.ledger.run import write_run
from blizzard.manifest.segments import Position
from blizzard.state.checkpoint import Checkpoint, encode
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.local import LocalStore
from blizzard.table.source_column import FIELDS

MTIME_SECS = random_names.TIME_MS // 1000
SIZE = 1_000
ETAG = f"{MTIME_SECS * 1_000_000_000:x}-{SIZE:x}"
"""Of every object in the stand-in, whose files are all holes of one size and of one time."""
ROWS, PER_COMMIT = 10, 1_000
_TYPES = {"string": "string", "int64": "long", "timestamp[us, tz=UTC]": "timestamp"}
_HIGHEST = random_names.file_name((1 << 128) - 1)


@dataclass(frozen=True, slots=True)
class Shape:
    """`per_commit`: files of a commit, which has one data file. `letters_every`: of so many files one has a refused
    record; 0: none."""

    per_commit: int = PER_COMMIT
    letters_every: int = 0

    def rejected(self, number: int) -> int:
        """How many records of this file are refused."""
        return int(self.letters_every > 0 and number % self.letters_every == 0)


USUAL = Shape()


@dataclass(frozen=True, slots=True)
class AuditWorld:
    """`landing`, `lake`: folders that the stand-in serves as buckets. `data_bytes`: of the data files."""

    landing: Path
    lake: Path
    files: int
    rows: int
    commits: int
    data_bytes: int


def make_world(folder: Path, files: int, shape: Shape = USUAL) -> AuditWorld:
    """Each commit has one data file, as one partition or none leaves them."""
    landing, lake = folder / "landing", folder / "lake"
    paths = random_names.paths(files, "audit")
    commits = -(-files // shape.per_commit)
    (lake / "table").mkdir(parents=True)
    for number in range(random_names.PARTITIONS):
        (landing / random_names.partition(number)).mkdir(parents=True)
    parts = [paths[first : first + shape.per_commit] for first in range(0, files, shape.per_commit)]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        sizes = [*pool.map(partial(_commit, landing, lake / "table", shape), range(commits), parts, chunksize=8)]
    _write_state(lake / "table", paths, commits, shape)
    rows = ROWS * files - sum(map(shape.rejected, range(files)))
    return AuditWorld(landing, lake, files, rows, commits, sum(sizes))


def _commit(landing: Path, table: Path, shape: Shape, sequence: int, paths: list[str]) -> int:
    """The files of one commit, its data file, receipt and log entry. Returns the size of the data file."""
    for path in paths:
        with (landing / path).open("wb") as file:
            file.truncate(SIZE)
        os.utime(landing / path, (MTIME_SECS, MTIME_SECS))
    name = f"part-{sequence:05}.parquet"
    rejected = [shape.rejected(sequence * shape.per_commit + number) for number in range(len(paths))]
    rows, store = _rows(paths, rejected, sequence), LocalStore(table)
    pq.write_table(rows, table / name, compression="zstd")
    size = (table / name).stat().st_size
    lines = [
        ReceiptLine(path, ETAG, SIZE, ROWS - refused, refused, float(MTIME_SECS), begins=True)
        for path, refused in zip(paths, rejected, strict=True)
    ]
    letters = [
        DeadLetter(path, ETAG, Stage.PARSE, "column id: expected a value, found none", row=0, raw="{}")
        for path, refused in zip(paths, rejected, strict=True)
        if refused
    ]
    DeadLetters(store, IDENTITY.state_prefix, IDENTITY.source_id).write_records(letters, MTIME_SECS)
    Receipts(store, IDENTITY.state_prefix).put(
        sequence=sequence, attempt="a", previous=None, now_ts=float(sequence), lines=lines
    )
    source = {"source": IDENTITY.source_id, "sequence": sequence}
    stats = {"numRecords": rows.num_rows, "minValues": {"_source": source}, "maxValues": {"_source": source}}
    _log(table, sequence + 1, [_add(name, size, stats), _txn(sequence)])
    return size


def _rows(paths: list[str], rejected: list[int], sequence: int) -> pa.Table:
    """Of the first records of each file so many as `rejected` says are refused."""
    numbers = [[*range(refused, ROWS)] for refused in rejected]
    count = sum(map(len, numbers))
    by_file = pa.array([at for at, of_file in enumerate(numbers) for _ in of_file])
    values = {
        "source": pa.repeat(pa.scalar(IDENTITY.source_id), count),
        "file": pa.array(paths).take(by_file),
        "row": pa.array([*chain.from_iterable(numbers)], pa.int64()),
        "etag": pa.repeat(pa.scalar(ETAG), count),
        "modified": pa.repeat(pa.scalar(MTIME_SECS * 1_000_000, pa.int64()), count).cast(FIELDS["modified"]),
        "sequence": pa.repeat(pa.scalar(sequence, pa.int64()), count),
    }
    source = pa.StructArray.from_arrays([values[name] for name in FIELDS], names=[*FIELDS])
    ids = pa.array([f"{path[-20:]}{row}" for path, rows in zip(paths, numbers, strict=True) for row in rows])
    return pa.table({"id": ids, "_source": source})


def _write_state(table: Path, paths: list[str], commits: int, shape: Shape) -> None:
    entries = sorted(_entry(path, at, shape) for at, path in enumerate(paths))
    store = LocalStore(table)
    run = write_run(
        store,
        ledger_folder(IDENTITY),
        entries,
        sequences=SequenceRange(0, commits - 1),
        previous=None,
        source_id=IDENTITY.source_id,
        run_id="0",
        max_files=len(entries),
    )
    newest = max((table / IDENTITY.state_prefix / "receipts").iterdir()).name
    checkpoint = Checkpoint(
        IDENTITY.pipeline,
        IDENTITY.source,
        sequence=commits - 1,
        position=Position(),
        partition_watermarks=dict.fromkeys(map(random_names.partition, range(random_names.PARTITIONS)), _HIGHEST),
        late_swept_ts=MTIME_SECS + 10_000_000.0,
        receipt=newest,
        ledger=(run.ref,),
    )
    text = encode(checkpoint)
    store.put(IDENTITY.copy_key, text.encode())
    _log(table, commits, [{"commitInfo": {"timestamp": 0, "userMetadata": text}}, *_actions(table, commits)])
    _log(table, 0, _first())
    from deltalake import DeltaTable

    DeltaTable(str(table)).create_checkpoint()


def _entry(path: str, at: int, shape: Shape) -> LedgerEntry:
    rejected, sequence = shape.rejected(at), at // shape.per_commit
    return LedgerEntry(path, sequence, ETAG, SIZE, MTIME_SECS * 1000, ROWS - rejected, rejected, FileState.DONE)


def _actions(table: Path, version: int) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, (table / "_delta_log" / f"{version:020d}.json").read_text().splitlines())


def _first() -> list[dict[str, Any]]:
    fields = [_field(name, _TYPES[str(kind)]) for name, kind in FIELDS.items()]
    columns = [_field("id", "string"), _field("_source", {"type": "struct", "fields": fields})]
    metadata = {
        "id": "audit",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _add(name: str, size: int, stats: Any) -> dict[str, Any]:
    add = {"path": name, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
    return {"add": {**add, "stats": json.dumps(stats)}}


def _txn(sequence: int) -> dict[str, Any]:
    return {"txn": {"appId": IDENTITY.app_id, "version": sequence, "lastUpdated": 0}}


def _log(table: Path, version: int, actions: list[dict[str, Any]]) -> None:
    file = table / "_delta_log" / f"{version:020d}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(json.dumps(action) + "\n" for action in actions))
