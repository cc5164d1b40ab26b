"""A source whose storage repeats credentials in each of its refusals: the code of the product, but for the table."""

import gzip
import io
import itertools
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_type

from blizzard.log import JsonLog
from blizzard.state.batch import PlannedFile
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.base import ObjectStore
from blizzard.storage.memory import MemoryStore
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from spark_job.formats.deferred import deferred_records_type
from spark_job.tasks.deferred_records import DeferredRecords
from spark_job.tasks.fetch import TaskFile
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.task_reader import TaskReader
from spark_job.write.data_file import TableLayout
from spark_job.write.parquet_files import BufferBudget, DataFileWriter
from tests.echoing import EchoingS3
from tests.fixtures_s3 import BUCKET
from tests.unit.fakes import Clock, MemoryRows, Row, World, settings
from tests.unit.plain_lines import PlainLines


def impatient(endpoint: str) -> S3Settings:
    return S3Settings(endpoint, "us-east-1", max_attempts=3, first_backoff_secs=0.001, max_backoff_secs=0.001)


class Now(Clock):
    """This machine's time, as storage has it."""

    def __call__(self) -> float:
        return time.time()


@dataclass(frozen=True, slots=True)
class TasksReader:
    """Reads a batch by the code of a task; the rows are in memory."""

    source: ObjectStore
    dead_letters: DeadLetters
    source_id: str
    clock: Clock

    def read(self, files: Sequence[PlannedFile], *, sequence: int, replacing: bool = False) -> MemoryRows:
        table, names = MemoryStore(self.clock), map(str, itertools.count())
        origin = Provenance(self.source_id, sequence, {})
        left_schema = pa.schema(to_arrow_type(deferred_records_type(0)))

        def writers(folder: str, schema: pa.Schema) -> Callable[[], DataFileWriter]:
            layout, buffer = TableLayout(folder, (), (), 32, 1 << 27), BufferBudget(1 << 20)
            return lambda: DataFileWriter(
                table, layout, schema, buffer=buffer, new_name=lambda: next(names), clock=self.clock
            )

        rows_schema = pa.schema([("value", pa.string()), *origin.fields])
        report = TaskReader(
            self.source,
            ReadSettings(format="text"),
            PlainLines(),
            origin,
            writers("", rows_schema),
            DeferredRecords(left_schema, writers("left/", left_schema)),
            remote=True,
        ).read([TaskFile(file.path, file.size) for file in files])
        found = [pq.read_table(io.BytesIO(table.get(data_file.path))).to_pylist() for data_file in report.data_files]
        rows = [
            Row(self.source_id, row["_source"]["file"], row["_source"]["row"], "", row["value"], sequence)
            for row in itertools.chain.from_iterable(found)
        ]
        return MemoryRows(report.outcomes, rows, (), self.dead_letters, self.clock)


class EchoedWorld(World):
    """One source and its state on S3, by way of the proxy; `calm` is the state past it."""

    def __init__(self, proxy: EchoingS3, endpoint: str, said: io.StringIO) -> None:
        super().__init__(settings(settle_delay_secs=0.0, interval_files=5, max_attempts=3))
        self.clock = Now()
        uri, log = f"s3://{BUCKET}/{uuid.uuid4().hex}", JsonLog(said, self.clock)
        self.source = open_store(f"{uri}/raw/", impatient(proxy.endpoint), log=log)  # type: ignore[assignment]
        self.state = open_store(f"{uri}/table/", impatient(proxy.endpoint), log=log)  # type: ignore[assignment]
        self.calm = open_store(f"{uri}/table/", impatient(endpoint))
        self.landing = open_store(f"{uri}/raw/", impatient(endpoint))
        names = (self.identity.state_prefix, self.identity.source_id)
        self.dead_letters = DeadLetters(self.calm, *names)
        self.reader = TasksReader(  # type: ignore[assignment]
            self.source, DeadLetters(self.state, *names), self.identity.source_id, self.clock
        )

    def kept(self) -> dict[str, str]:
        """Every object below the table, as it reads once it is decompressed."""
        bodies = {info.key: self.calm.get(info.key) for info in self.calm.list()}
        opened = {key: gzip.decompress(body) if key.endswith(".gz") else body for key, body in bodies.items()}
        return {key: body.decode() for key, body in opened.items()}
