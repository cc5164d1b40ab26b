"""A task reads an object over S3 that is too large to be fetched whole: piece by piece, ahead of who works on it."""

import io
import itertools
import random
from base64 import b64encode
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from isal import igzip
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import LongType, StringType, StructField, StructType

from blizzard.storage.memory import MemoryStore
from blizzard.storage.s3 import S3Settings, S3Store
from spark_job.formats.deferred import deferred_records_type
from spark_job.formats.json.format import NdjsonFormat
from spark_job.tasks.deferred_records import DeferredRecords
from spark_job.tasks.fetch import WHOLE_BYTES, StreamedAhead, TaskFile
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.report import Report
from spark_job.tasks.task_reader import TaskReader
from spark_job.write.data_file import TableLayout
from spark_job.write.parquet_files import BufferBudget, DataFileWriter
from tests.fixtures_faulty_s3 import Fault, FaultyS3, cutting
from tests.fixtures_s3 import BUCKET

MIB = 1 << 20
ROWS = 40_000
KEY = "events.ndjson.gz"
SCHEMA = StructType([StructField("n", LongType()), StructField("text", StringType())])
ORIGIN = Provenance("events:landing", 7, {})
TABLE = pa.schema([*to_arrow_type(SCHEMA), *ORIGIN.fields])
LEFT = pa.schema(to_arrow_type(deferred_records_type(0)))
TASKS = {
    "buffered until the file is complete": ReadSettings("ndjson"),
    "written to its own data files while it is read": ReadSettings("ndjson", memory_bytes=64 * MIB),
}
tasks = pytest.mark.parametrize("settings", TASKS.values(), ids=list(TASKS))


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Random text, which compression hardly shrinks."""
    rng = random.Random(1)
    return [b64encode(rng.randbytes(500)).decode() for _ in range(ROWS)]


@pytest.fixture(scope="module")
def body(texts: list[str]) -> bytes:
    lines = "".join(f'{{"n":{n},"text":"{text}"}}\n' for n, text in enumerate(texts))
    return igzip.compress(lines.encode())


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return f"large/{abs(hash(request.node.name)):x}/"


@pytest.fixture
def calm(s3_endpoint: str, prefix: str) -> S3Store:
    return S3Store(BUCKET, prefix, S3Settings(s3_endpoint, "us-east-1"))


@pytest.fixture
def store(faulty_s3: FaultyS3, prefix: str) -> S3Store:
    return S3Store(
        BUCKET, prefix, S3Settings(faulty_s3.endpoint, "us-east-1", max_attempts=3, first_backoff_secs=0.001)
    )


def read(store: S3Store, size: int, settings: ReadSettings) -> tuple[Report, list[dict[str, Any]]]:
    """What a task says of the object, and the rows of all that it left behind, in their order."""
    table, names = MemoryStore(lambda: 0.0), map(str, itertools.count())

    def writer(folder: str, schema: pa.Schema) -> DataFileWriter:
        layout, buffer = TableLayout(folder, (), (), 0, 1 << 30), BufferBudget(settings.buffer_bytes)
        return DataFileWriter(table, layout, schema, buffer=buffer, new_name=lambda: next(names), clock=lambda: 0.0)

    report = TaskReader(
        store,
        settings,
        NdjsonFormat(SCHEMA, settings.limits),
        ORIGIN,
        lambda: writer("", TABLE),
        DeferredRecords(LEFT, lambda: writer("left/", LEFT)),
        remote=True,
        parsers=2,
    ).read([TaskFile(KEY, size)])
    assert sorted(file.path for file in report.data_files) == [info.key for info in table.list()]
    rows = [row for info in table.list() for row in pq.read_table(io.BytesIO(table.get(info.key))).to_pylist()]
    return report, sorted(rows, key=lambda row: row["n"])


def gets(faulty_s3: FaultyS3) -> list[dict[str, str]]:
    return [exchange.headers for exchange in faulty_s3.exchanges if exchange.method == "GET"]


@tasks
@pytest.mark.parametrize("breaks", [(), (7 * MIB, 5 * MIB)], ids=["at once", "after two breaks"])
def test_every_value_and_row_number_arrives(
    breaks: tuple[int, ...], settings: ReadSettings, store: S3Store, calm: S3Store, faulty_s3: FaultyS3,
    texts: list[str], body: bytes, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    streamed: list[int] = []
    ahead = StreamedAhead.read
    monkeypatch.setattr(StreamedAhead, "read", lambda self, size=-1: streamed.append(size) or ahead(self, size))
    assert len(body) > 19 * MIB > WHOLE_BYTES
    info = calm.put(KEY, body)
    faulty_s3.inject("GET", *map(cutting, breaks))
    report, rows = read(store, len(body), settings)
    (outcome,) = report.outcomes
    assert (outcome.error, outcome.rows, outcome.size, outcome.etag) == (None, ROWS, len(body), info.etag)
    assert [(row["n"], row["text"]) for row in rows] == [*enumerate(texts)]
    assert [(row["_source"]["file"], row["_source"]["row"]) for row in rows] == [(KEY, n) for n in range(ROWS)]
    first, *resumed = gets(faulty_s3)
    assert "range" not in first
    assert [headers["if-match"] for headers in resumed] == [f'"{info.etag}"'] * len(breaks)
    starts = [int(headers["range"].removeprefix("bytes=").removesuffix("-")) for headers in resumed]
    assert starts == sorted(starts)
    assert all(6 * MIB <= start <= 12 * MIB for start in starts)
    assert streamed


@tasks
def test_an_object_replaced_during_the_read_leaves_no_row(
    settings: ReadSettings, store: S3Store, calm: S3Store, faulty_s3: FaultyS3, body: bytes
) -> None:
    calm.put(KEY, body)
    replaced: Fault = cutting(15 * MIB, then=lambda: calm.put(KEY, body[::-1]))
    faulty_s3.inject("GET", replaced)
    report, rows = read(store, len(body), settings)
    (outcome,) = report.outcomes
    assert "overwritten while it was read" in str(outcome.error)
    assert len(gets(faulty_s3)) == 2
    assert rows == []
