"""A Delta table in a folder, a writer of data files by hand, and another writer that gets in between."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from blizzard.log import silent
from blizzard.state.unknown_fields import NO_FIELDS, UnknownFields
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.auto import AutoEngine
from spark_job.engines.local.engine import LocalEngine
from spark_job.engines.spark.engine import SparkEngine
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.table.schema import columns_of
from spark_job.table.table_source import TableSource
from spark_job.tasks.engine import Engine
from spark_job.write.data_file import DataFile, TableLayout
from tests.spark.lake import no_spark
from tests.spark.other_programs import ByDeltalake, BySpark, OtherProgram

ENGINES = ("spark", "local", "auto")
ALONE = "alone"
"""The local engine, where there is no Spark: neither to write the table nor to look at it."""
WITH_SPARK = [pytest.param(name, marks=pytest.mark.spark) for name in ENGINES]
EVERY_WORLD = [ALONE, *WITH_SPARK]
APP_ID = "blizzard:events:landing"
SCHEMA = "id STRING NOT NULL, n BIGINT"
SOURCE = pa.struct(
    [
        ("source", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("etag", pa.string()),
        ("modified", pa.timestamp("us", "UTC")),
        ("sequence", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Written:
    data_files: Sequence[DataFile]
    layout: TableLayout
    record_type: StructType = field(default_factory=lambda: columns_of(SCHEMA))
    unknown_fields: UnknownFields = NO_FIELDS
    misfits: UnknownFields = NO_FIELDS


@dataclass
class World:
    """A table in a folder, and a writer of data files by hand."""

    folder: Path
    spark: Callable[[], SparkSession]
    now_ts: Callable[[], float] = time.time
    written: int = 0
    schema: str = SCHEMA
    partition_by: tuple[str, ...] = ()
    partition_columns: dict[str, str] = field(default_factory=dict)
    engine: str = "spark"
    """One of `ENGINES`."""

    @property
    def table(self) -> Path:
        return self.folder / "table"

    def source(self, name: str = "landing", **changes: Any) -> DeltaSourceTable:
        """As a new process sees the table."""
        wanted = TableSource(
            str(self.table),
            f"events:{name}",
            f"blizzard:events:{name}",
            self.schema,
            self.partition_columns,
            self.partition_by,
        )
        of_source = {key: changes.pop(key) for key in [*changes] if key in TableSource.__slots__}
        source = replace(wanted, **of_source)
        more = {"store": LocalStore(self.table, may_be_missing=True), "clock": self.now_ts, **changes}
        engine = more.pop("engine", self.engine)
        return DeltaSourceTable(self.engine_named(engine).table(source), source, **more)

    def engine_named(self, name: str) -> Engine:
        """One that has run no tasks: it has no processes to end."""
        local = LocalEngine(S3Settings(), dict, silent, clock=self.now_ts)
        engines: dict[str, Callable[[], Engine]] = {
            "spark": lambda: SparkEngine(self.spark),
            "local": lambda: local,
            "auto": lambda: AutoEngine(local, lambda: SparkEngine(self.spark), silent),
        }
        return engines[name]()

    def write(self, layout: TableLayout, *ids: str | None, folder: str = "", of: str = "", **more: Any) -> DataFile:
        """One Parquet file with these ids, of the source's file `of`; `more`: constant columns, and those of the
        partition under their names."""
        self.written += 1
        named = f"{self.written:05d}.parquet"
        named_file = of or f"f{self.written}"
        provenance: dict[str, Any] = {
            "source": "events:landing",
            "file": named_file,
            "row": 0,
            "etag": "e",
            "sequence": 0,
        }
        columns = {"id": pa.array(ids, pa.string()), "n": pa.array(range(len(ids)), pa.int64())}
        columns |= {name: pa.array([value] * len(ids)) for name, value in more.items()}
        source_type = pa.struct([*SOURCE, ("member", pa.string())]) if layout.members else SOURCE
        provenance["member"] = columns.pop("member")[0].as_py() if "member" in columns else None
        columns["_source"] = pa.array([{**provenance, "modified": datetime.now(UTC)}] * len(ids), source_type)
        partitions = {name: columns.pop(name)[0].as_py() for name in layout.partition_by}
        path = f"{layout.folder}{folder}part-{named}"
        file = self.table / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), file)
        low, high = min(filter(None, ids), default=""), max(filter(None, ids), default="")
        stats = {"numRecords": len(ids), "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
        values = {name: None if value is None else str(value) for name, value in partitions.items()}
        return DataFile(path, file.stat().st_size, len(ids), file.stat().st_mtime, values, json.dumps(stats))

    def append(self, sequence: int, *ids: str | None, table: DeltaSourceTable | None = None) -> None:
        source = table or self.source()
        layout = source.layout()
        rows = Written([self.write(layout, *ids)] if ids else [], layout, source.record_type)
        source.append(rows, sequence=sequence, user_metadata=f"state {sequence}")

    def sql(self, text: str) -> list[Any]:
        """`{t}` is the table."""
        return self.spark().sql(text.replace("{t}", f"delta.`{self.table}`")).collect()

    # -- other programs

    @property
    def alone(self) -> bool:
        return self.spark is no_spark

    @property
    def engines(self) -> Sequence[str]:
        """That can be tried here."""
        return ("local",) if self.alone else ENGINES

    @property
    def other(self) -> OtherProgram:
        """Spark, if there is one."""
        return ByDeltalake(self.table) if self.alone else BySpark(self.spark, self.table)

    def read(self, *columns: str) -> list[tuple[Any, ...]]:
        """As deltalake reads them, and Spark, if there is one: both the same."""
        found = ByDeltalake(self.table).read(*columns)
        assert self.other.read(*columns) == found
        return found

    def ids_in_all(self) -> list[str]:
        return [name for (name,) in self.read("id")]

    def make(self, columns: str = SCHEMA, more: str = "", **settings: str) -> None:
        """A table that another program has created."""
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in settings.items())
        with_properties = f"TBLPROPERTIES ({properties})" if properties else ""
        source = (
            "STRUCT<source: STRING, file: STRING, row: BIGINT, etag: STRING, modified: TIMESTAMP, sequence: BIGINT>"
        )
        self.sql(f"CREATE TABLE {{t}} ({columns}, _source {source}) USING delta {more} {with_properties}")

    def ids(self) -> list[str]:
        """Read by another engine."""
        return sorted(DeltaTable(str(self.table)).to_pyarrow_table()["id"].to_pylist())

    def ids_in_spark(self) -> list[str]:
        return sorted(row["id"] for row in self.sql("SELECT id FROM {t}"))

    def versions(self) -> list[int]:
        return sorted(int(f.stem) for f in (self.table / "_delta_log").glob("*.json") if f.stem.isdigit())

    def actions(self, version: int = -1) -> list[dict[str, Any]]:
        file = self.table / "_delta_log" / f"{self.versions()[version]:020d}.json"
        return [json.loads(line) for line in file.read_text().splitlines()]

    def txn(self, app_id: str = APP_ID) -> int | None:
        """Read by another engine."""
        return DeltaTable(str(self.table)).transaction_version(app_id)

    def staged(self) -> list[Path]:
        return sorted(self.table.glob("_blizzard/*/staging/**/*.parquet"))


def world_of(request: pytest.FixtureRequest, folder: Path) -> World:
    """For a fixture whose parameter is one of EVERY_WORLD."""
    if request.param == ALONE:
        return World(folder, no_spark, engine="local")
    return World(folder, request.getfixturevalue("spark"), engine=request.param)


def overtaken_by(source: DeltaSourceTable, by: Callable[[], object]) -> None:
    """Another commit happens between the start of the source's next commit and its end."""
    begin, turns = source.preparation.start_transaction, iter([False, True])

    def slow_start(**named: Any) -> Any:
        transaction = begin(**named)
        if next(turns, False):
            commit = transaction.commit

            def late(*args: Any, **named: Any) -> int:
                by()
                return commit(*args, **named)

            transaction.commit = late  # type: ignore[method-assign]
        return transaction

    source.preparation.start_transaction = slow_start  # type: ignore[method-assign]
