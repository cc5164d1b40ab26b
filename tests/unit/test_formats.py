"""Every file format behind one Protocol: what each must do, and that a new one needs only the registry."""

import io
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from blizzard.config.model import Source
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from spark_job.formats.protocol import FileFault, Format, Limits
from spark_job.formats.registry import FORMATS, open_format
from spark_job.ports.reader import Outcome
from spark_job.tasks.batch_tasks import ReadTasks, Task
from spark_job.tasks.destination import Destination
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.report import Report
from spark_job.tasks.task_reader import ReadSettings
from spark_job.write.parquet_files import TableLayout
from tests.unit.contents import CHUNK_BYTES, StoredContent
from tests.unit.other_formats import Columns, ValueStream

ROOT = Path(__file__).parents[2]
SCHEMA = StructType([StructField("id", StringType(), nullable=False)])
TEXT = StructType([StructField("value", StringType())])
ROWS_A_GROUP = 4


def parquet(records: list[str | None]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(records, pa.string())}), file, row_group_size=ROWS_A_GROUP)
    return file.getvalue()


@dataclass(frozen=True)
class Kind:
    """A format, and how to write files for it. `bad`: a file whose record number 1 is refused, of three."""

    make: Callable[[StructType, Limits], Format[Any]]
    schema: StructType
    write: Callable[[list[str]], bytes]
    bad: bytes
    broken: bytes | None
    """A file that is refused as a whole; None where any bytes are good."""


def ndjson(records: list[str]) -> bytes:
    return "\n".join(json.dumps({"id": record}) for record in records).encode()


KINDS = {
    "ndjson": Kind(FORMATS["ndjson"], SCHEMA, ndjson, b'{"id": "a"}\n{"id": \n{"id": "c"}', b'{"id": "\xff"}'),
    "text": Kind(FORMATS["text"], TEXT, lambda records: "\n".join(records).encode(), b"a\n\xff\nc", None),
    "values": Kind(
        ValueStream,
        SCHEMA,
        lambda records: " \n".join(json.dumps({"id": record}, indent=1) for record in records).encode(),
        b'{"id": "a"} 17 {"id": "c"}',
        b'{"id": "a"} {"id',
    ),
    "columns": Kind(Columns, SCHEMA, parquet, parquet(["a", None, "c"]), b"PAR1 but no Parquet"),
}
RECORDS = [f"r{number:02}" for number in range(10)]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def read(kind: Kind, stored: bytes, first_record: int = 0, chunk_bytes: int = CHUNK_BYTES) -> list[tuple[int, str]]:
    """Number and value of each good record, from blocks that are parsed one by one."""
    file_format = kind.make(kind.schema, Limits())
    found = []
    for block in file_format.blocks(
        StoredContent(io.BytesIO(stored), chunk_bytes=chunk_bytes), first_record=first_record
    ):
        parsed = file_format.parse([block])
        numbers = range(block.count) if parsed.positions is None else parsed.positions
        values = parsed.records.column(0).to_pylist()
        found += [(block.first_record + number, value) for number, value in zip(numbers, values, strict=True)]
    return found


def test_every_registered_format_is_held_to_this_contract_and_documented() -> None:
    assert set(FORMATS) <= set(KINDS)
    assert set(get_args(Source.model_fields["format"].annotation)) == set(FORMATS)
    page = (ROOT / "docs" / "formats.md").read_text()
    assert [name for name in FORMATS if f"`{name}`" not in page] == []


@pytest.mark.parametrize("chunk_bytes", [1, 7, CHUNK_BYTES])
def test_records_come_in_order_with_consecutive_numbers(kind: Kind, chunk_bytes: int) -> None:
    assert read(kind, kind.write(RECORDS), chunk_bytes=chunk_bytes) == [*enumerate(RECORDS)]


@pytest.mark.parametrize("first_record", range(len(RECORDS) + 2))
def test_reading_resumes_at_any_record(kind: Kind, first_record: int) -> None:
    found = read(kind, kind.write(RECORDS), first_record, chunk_bytes=16)
    assert found == [*enumerate(RECORDS)][first_record:]


def test_an_empty_file_has_no_records(kind: Kind) -> None:
    assert read(kind, kind.write([])) == []


def test_a_bad_record_is_refused_and_the_others_keep_their_numbers(kind: Kind) -> None:
    file_format = kind.make(kind.schema, Limits())
    blocks = [*file_format.blocks(StoredContent(io.BytesIO(kind.bad)), first_record=0)]
    parsed = file_format.parse(blocks)
    assert (parsed.records.column(0).to_pylist(), list(parsed.positions or ())) == (["a", "c"], [0, 2])
    assert [number for number, _ in parsed.refused] == [1]
    assert len(parsed.refused_texts) == 1
    assert read(kind, kind.bad) == [(0, "a"), (2, "c")]


def test_a_broken_file_is_a_fault_of_the_file(kind: Kind) -> None:
    if kind.broken is None:
        return
    with pytest.raises(FileFault):
        read(kind, kind.broken)


def test_blocks_of_several_files_are_parsed_together_as_they_are_apart(kind: Kind) -> None:
    file_format = kind.make(kind.schema, Limits())
    files = [kind.write(RECORDS[:3]), kind.bad, kind.write(RECORDS[3:])]
    blocks = [b for stored in files for b in file_format.blocks(StoredContent(io.BytesIO(stored)), first_record=0)]
    apart = [value for stored in files for _, value in read(kind, stored)]
    assert file_format.parse(blocks).records.column(0).to_pylist() == apart


# --- A whole task with a format that only the registry knows ---


@dataclass
class Lake:
    folder: Path
    kind: str

    def land(self, path: str, stored: bytes) -> int:
        LocalStore(self.folder / "landing").put(path, stored)
        return len(stored)

    def read(self, *files: tuple[Any, ...]) -> Report:
        """What an executor does with these files: `_values` of `TaskFile`."""
        layout = TableLayout("", (), (), 32, 1 << 27)
        schema = KINDS[self.kind].schema
        provenance = Provenance("events:landing", 7, {})
        destination = Destination(str(self.folder / "table"), layout, "deferred/", schema.json(), provenance)
        (self.folder / "table").mkdir(exist_ok=True)
        task = Task(str(self.folder / "landing"), S3Settings(), ReadSettings(self.kind), destination)
        return Report.from_json(ReadTasks(task.to_json())(json.dumps(files)))

    def rows(self, report: Report) -> list[tuple[str, int, str]]:
        tables = [pq.read_table(self.folder / "table" / file.path) for file in report.data_files]
        rows = itertools.chain(*(table.to_pylist() for table in tables))
        return sorted((row["_source"]["file"], row["_source"]["row"], row.get("id", row.get("value"))) for row in rows)


@pytest.fixture
def lake(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Lake:
    made = {name: kind.make for name, kind in KINDS.items()}
    monkeypatch.setattr("spark_job.formats.registry.FORMATS", made)
    return Lake(tmp_path, request.param)


every_kind = pytest.mark.parametrize("lake", KINDS, indirect=True)


@every_kind
def test_a_task_reads_files_of_any_format_and_refuses_record_and_file(lake: Lake) -> None:
    kind = KINDS[lake.kind]
    bodies = {"a": kind.write(RECORDS), "b": kind.bad, "c": kind.broken or b"", "d": kind.write(RECORDS[:2])}
    sizes = {path: lake.land(path, stored) for path, stored in bodies.items()}
    report = lake.read(*((path, size, 0, None, None, (), None) for path, size in sizes.items()))
    expected = [("a", n, record) for n, record in enumerate(RECORDS)] + [("b", 0, "a"), ("b", 2, "c")]
    assert lake.rows(report) == [*expected, ("d", 0, "r00"), ("d", 1, "r01")]
    assert [outcome.path for outcome in report.outcomes if outcome.error is not None] == ["c"] * (
        kind.broken is not None
    )
    deferred = [pq.read_table(lake.folder / "table" / file.path).to_pylist() for file in report.deferred]
    assert [(row["file"], row["row"]) for rows in deferred for row in rows] == [("b", 1)]


@every_kind
def test_a_file_that_is_read_in_slices_gives_each_record_once(lake: Lake) -> None:
    kind, records = KINDS[lake.kind], [f"{number:06}" + "x" * 2_000 for number in range(2_500)]
    size = lake.land("large", kind.write(records))
    read_so_far, rows, outcomes = 0, [], list[Outcome]()
    while not outcomes or not outcomes[-1].finished:
        report = lake.read(("large", size, read_so_far, 1 << 20, None, (), None))
        rows += lake.rows(report)
        (outcome,) = report.outcomes
        assert outcome.error is None
        assert outcome.records_read > read_so_far
        read_so_far = outcome.records_read
        outcomes.append(outcome)
    assert sorted(rows) == [("large", number, record) for number, record in enumerate(records)]
    assert len(outcomes) > 2


def test_a_format_is_opened_by_its_name_alone() -> None:
    assert type(open_format("text", TEXT, Limits())).__name__ == "TextFormat"
