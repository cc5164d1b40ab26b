"""A source of many files and the table that has their rows, written directly: objects, data files, log, ledger."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
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
class AuditWorld:
    """`landing`, `lake`: folders that the stand-in serves as buckets. `data_bytes`: of the data files."""

    landing: Path
    lake: Path
    files: int
    commits: int
    data_bytes: int


def make_world(folder: Path, files: int) -> AuditWorld:
    """In commits of PER_COMMIT files, each of one data file, as one partition or none leaves them."""
    landing, lake = folder / "landing", folder / "lake"
    paths = random_names.paths(files, "audit")
    commits = -(-files // PER_COMMIT)
    (lake / "table").mkdir(parents=True)
    for number in range(random_names.PARTITIONS):
        (landing / random_names.partition(number)).mkdir(parents=True)
    parts = [paths[first : first + PER_COMMIT] for first in range(0, files, PER_COMMIT)]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        sizes = [*pool.map(partial(_commit, landing, lake / "table"), range(commits), parts, chunksize=8)]
    _write_state(lake / "table", paths, commits)
    return AuditWorld(landing, lake, files, commits, sum(sizes))


def _commit(landing: Path, table: Path, sequence: int, paths: list[str]) -> int:
    """The files of one commit, its data file, receipt and log entry. Returns the size of the data file."""
    for path in paths:
        with (landing / path).open("wb") as file:
            file.truncate(SIZE)
        os.utime(landing / path, (MTIME_SECS, MTIME_SECS))
    name = f"part-{sequence:05}.parquet"
    pq.write_table(_rows(paths, sequence), table / name, compression="zstd")
    size = (table / name).stat().st_size
    lines = [ReceiptLine(path, ETAG, SIZE, ROWS, 0, float(MTIME_SECS), begins=True) for path in paths]
    Receipts(LocalStore(table), IDENTITY.state_prefix).put(
        sequence=sequence, attempt="a", previous=None, now_ts=float(sequence), lines=lines
    )
    source = {"source": IDENTITY.source_id, "sequence": sequence}
    stats = {"numRecords": len(paths) * ROWS, "minValues": {"_source": source}, "maxValues": {"_source": source}}
    _log(table, sequence + 1, [_add(name, size, stats), _txn(sequence)])
    return size


def _rows(paths: list[str], sequence: int) -> pa.Table:
    count = len(paths) * ROWS
    by_file = pa.array([number for number in range(len(paths)) for _ in range(ROWS)])
    values = {
        "source": pa.repeat(pa.scalar(IDENTITY.source_id), count),
        "file": pa.array(paths).take(by_file),
        "row": pa.array([*range(ROWS)] * len(paths), pa.int64()),
        "etag": pa.repeat(pa.scalar(ETAG), count),
        "modified": pa.repeat(pa.scalar(MTIME_SECS * 1_000_000, pa.int64()), count).cast(FIELDS["modified"]),
        "sequence": pa.repeat(pa.scalar(sequence, pa.int64()), count),
    }
    source = pa.StructArray.from_arrays([values[name] for name in FIELDS], names=[*FIELDS])
    ids = pa.array([f"{path[-20:]}{number}" for path in paths for number in range(ROWS)])
    return pa.table({"id": ids, "_source": source})


def _write_state(table: Path, paths: list[str], commits: int) -> None:
    entries = sorted(
        LedgerEntry(path, at // PER_COMMIT, ETAG, SIZE, MTIME_SECS * 1000, ROWS, 0, FileState.DONE)
        for at, path in enumerate(paths)
    )
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
