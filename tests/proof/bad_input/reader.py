"""One batch of files through the real reader, as a task runs it."""

import io
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from blizzard.log import JsonLog, Log
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from spark_job.formats.deferred import deferred_records_type
from spark_job.formats.json.format import NdjsonFormat
from spark_job.formats.protocol import Limits
from spark_job.formats.text.format import TextFormat
from spark_job.ports.reader import Outcome
from spark_job.tasks.decided_records import RefusedByTasks, dead_letters_of, refused_already
from spark_job.tasks.deferred_records import DeferredRecords
from spark_job.tasks.fetch import TaskFile
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.report import Report
from spark_job.tasks.task_reader import TaskReader
from spark_job.write.data_file import TableLayout
from spark_job.write.parquet_files import BufferBudget, DataFileWriter
from tests.proof.bad_input.corpus import MOST_FILE_BYTES, MOST_RECORD_BYTES
from tests.proof.bad_input.records import PARTITION, SCHEMA

NOW_TS = 1_706_450_400.0
STATE = "_blizzard/events_landing"
STAGING = "_blizzard/staging/batch/"
TEXT_SCHEMA = StructType([StructField("value", StringType())])
LIMITS = Limits(MOST_RECORD_BYTES, MOST_FILE_BYTES)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a batch; a variant replaces one of them."""

    store: Callable[[Path], ObjectStore] = LocalStore
    letters: Callable[..., DeadLetters] = DeadLetters
    log: Callable[[io.StringIO], Log] = lambda stream: JsonLog(stream, lambda: NOW_TS)
    limits: Limits = LIMITS
    ndjson: Callable[[StructType, Limits], NdjsonFormat] = NdjsonFormat
    refused: Callable[[pa.Table], RefusedByTasks] = RefusedByTasks


@dataclass(slots=True)
class Found:
    """The result of the files."""

    outcomes: Sequence[Outcome] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)
    undecided: list[dict[str, Any]] = field(default_factory=list)
    """Lines that only Spark's parser may decide; each must become a row or a dead letter."""
    letters: list[dict[str, Any]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)


def read_batch(table: Path, files: Mapping[str, bytes], parts: Parts, *, is_text: bool = False) -> Found:
    """All files in one task, from a store that accepts every key that S3 accepts."""
    source = MemoryStore(lambda: NOW_TS)
    for path, body in files.items():
        source.put(path, body)
    entries = [TaskFile(info.key, info.size) for info in source.list()]
    return read_entries(table, source, entries, parts, is_text=is_text)


def read_entries(
    table: Path, source: ObjectStore, files: Sequence[TaskFile], parts: Parts, *, is_text: bool = False
) -> Found:
    store, names = parts.store(table), map(str, itertools.count())
    settings = ReadSettings(format="text" if is_text else "ndjson", limits=parts.limits, memory_bytes=64 << 20)
    columns = TEXT_SCHEMA if is_text else SCHEMA
    layout = TableLayout("", () if is_text else (PARTITION,), tuple(columns.names[:2]), 32, 1 << 27)
    origin, left_schema = Provenance("events:landing", 7, {}), pa.schema(to_arrow_type(deferred_records_type(0)))
    schema = pa.schema([*(pa.field(f.name, to_arrow_type(f.dataType)) for f in columns), *origin.fields])

    def opener(layout: TableLayout, schema: pa.Schema) -> Callable[[], DataFileWriter]:
        buffer = BufferBudget(settings.buffer_bytes)
        return lambda: DataFileWriter(
            store,
            layout,
            schema,
            buffer=buffer,
            new_name=lambda: next(names),
            clock=lambda: NOW_TS,
        )

    report = TaskReader(
        source,
        settings,
        (TextFormat if is_text else parts.ndjson)(columns, parts.limits),
        origin,
        opener(layout, schema),
        DeferredRecords(left_schema, opener(TableLayout(STAGING, (), (), 0, 1 << 27), left_schema)),
        remote=True,
        parsers=2,
    ).read(files)
    return _found(table, store, type(report).from_json(report.to_json()), left_schema, parts)


def _found(table: Path, store: ObjectStore, report: Report, left_schema: pa.Schema, parts: Parts) -> Found:
    """What the driver does with a task's report: write the dead letters and count."""
    found, said = Found(), io.StringIO()
    letters, log = parts.letters(store, STATE, "events:landing"), parts.log(said)
    failed = [outcome for outcome in report.outcomes if outcome.error is not None]
    for outcome in failed:
        stage = outcome.stage or Stage.PARSE
        letters.write_file(DeadLetter(outcome.path, outcome.etag, stage, outcome.error or ""), NOW_TS)
        log("file_dead_lettered", source="events:landing", path=outcome.path, stage=stage, error=outcome.error)
    left = pa.concat_tables([left_schema.empty_table(), *(_table(table / f.path) for f in report.deferred)])
    refused = parts.refused(refused_already(left, [outcome.path for outcome in failed]))
    letters.write_records(dead_letters_of([refused]), NOW_TS)
    found.outcomes = [_counted(outcome, refused.refused[outcome.path]) for outcome in report.outcomes]
    gone = {outcome.path for outcome in failed}
    found.undecided = [r for r in left.to_pylist() if r["fault"] is None and r["file"] not in gone]
    for data_file in report.data_files:
        rows = _table(table / data_file.path).to_pylist()
        found.rows += [{**row, **data_file.partition_values} for row in rows]
    found.letters = [*_letters(table)]
    found.log = said.getvalue().split("\n")
    return found


def _counted(outcome: Outcome, refused: int) -> Outcome:
    """As the driver does it, with the reported number of refused records."""
    return replace(outcome, rows=outcome.rows - refused, dead_records=refused)


def _table(file: Path) -> pa.Table:
    """Not with pyarrow's own opening of paths, which takes column values from folder names."""
    return pq.read_table(io.BytesIO(file.read_bytes()))


def _letters(table: Path) -> Iterator[dict[str, Any]]:
    """Without code of the product."""
    for file in sorted((table / STATE / "dead_letters").glob("*/*.ndjson")):
        yield from map(json.loads, file.read_text().splitlines())


def counted(found: Found) -> Counter[str]:
    letters = Counter({"dead letters": len(found.letters), "rows": len(found.rows)})
    return letters + Counter({"records left to Spark": len(found.undecided)})
