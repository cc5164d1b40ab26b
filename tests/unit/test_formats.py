"""Every file format behind one Protocol: what each must do, and that a new one needs only the registry."""

import ast
import io
import itertools
import json
import re
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, get_args

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from blizzard.config.model import HowToRead
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from spark_job.formats.protocol import Block, FileFault, Limits, Parsed
from spark_job.formats.registry import FORMATS, open_format
from spark_job.ports.reader import Outcome
from spark_job.tasks.batch_tasks import ReadTasks, Task
from spark_job.tasks.destination import Destination
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.report import Report
from spark_job.write.data_file import TableLayout
from tests.unit.contents import CHUNK_BYTES, StoredContent
from tests.unit.format_kinds import KINDS, LIMITS, PAGE, RECORDS, ROOT, TEXT, Kind
from tests.unit.other_formats import ValueStream


class CopiedContent(StoredContent):
    """The copy for random access is there already, so that it does not count as the format's memory."""

    def __init__(self, stored: io.BytesIO, *, chunk_bytes: int) -> None:
        super().__init__(stored, chunk_bytes=chunk_bytes)
        self._copy = io.BytesIO(stored.getvalue())

    def random_access(self) -> BinaryIO:
        return self._copy


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def read(kind: Kind, stored: bytes, first_record: int = 0, chunk_bytes: int = CHUNK_BYTES) -> list[tuple[int, str]]:
    """Number and value of each good record, from blocks that are parsed one by one."""
    file_format = kind.open()
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
    assert set(FORMATS) <= {*KINDS, "binary"}  # each file of which is one record: test_whole_files.py
    assert set(get_args(HowToRead.model_fields["format"].annotation)) == set(FORMATS)
    page = PAGE.read_text()
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
    file_format = kind.open()
    blocks = [*file_format.blocks(StoredContent(io.BytesIO(kind.bad)), first_record=0)]
    parsed = file_format.parse(blocks)
    assert (parsed.records.column(0).to_pylist(), list(parsed.positions or ())) == (["a", "c"], [0, 2])
    assert [number for number, _ in parsed.refused] == [1]
    assert len(parsed.refused_texts) == 1
    assert read(kind, kind.bad) == [(0, "a"), (2, "c")]


def test_what_is_parsed_always_has_the_texts_of_the_refused_records() -> None:
    with pytest.raises(TypeError, match="refused_texts"):
        Parsed(pa.table({"id": ["a"]}), (0,), [(1, "no good")])  # type: ignore[call-arg]


def test_a_broken_file_is_a_fault_of_the_file(kind: Kind) -> None:
    if kind.broken is None:
        pytest.skip("no bytes are broken for it")
    with pytest.raises(FileFault):
        read(kind, kind.broken)


def test_damage_after_the_first_block_is_a_fault_of_the_file(kind: Kind) -> None:
    """Whatever error the format's own library has for it."""
    file_format = kind.open()
    if kind.damage is None:
        pytest.skip("it is read from its end, so that damage shows before the first block")
    content = StoredContent(io.BytesIO(kind.damage(kind.write(RECORDS))), chunk_bytes=64)
    blocks = file_format.blocks(content, first_record=0)
    assert file_format.parse([next(blocks)]).records.num_rows > 0
    with pytest.raises(FileFault):
        [file_format.parse([block]) for block in blocks]


def test_memory_stays_bounded_however_large_a_file_and_its_parts_are(kind: Kind) -> None:
    stored = (kind.write_as_one or kind.write)([Random(number).randbytes(1_000).hex() for number in range(5_000)])
    assert len(stored) > 10_000_000
    content = CopiedContent(io.BytesIO(stored), chunk_bytes=1 << 18)
    arrow_before, of_arrow, sizes = pa.total_allocated_bytes(), list[int](), list[int]()
    tracemalloc.start()
    try:
        block: Block
        for block in kind.open().blocks(content, first_record=0):
            sizes.append(block.size_bytes)
            of_arrow.append(pa.total_allocated_bytes() - arrow_before)
        of_python = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(sizes) >= 10_000_000
    assert max(sizes) < 600_000
    assert max(of_arrow) < 6_000_000
    assert of_python < 6_000_000


def test_blocks_of_several_files_are_parsed_together_as_they_are_apart(kind: Kind) -> None:
    file_format = kind.open()
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
        settings = ReadSettings(self.kind, limits=LIMITS, options=KINDS[self.kind].options)
        task = Task(str(self.folder / "landing"), S3Settings(), settings, destination)
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


@pytest.fixture
def lake_of_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr("spark_job.formats.registry.FORMATS", {"values": ValueStream})
    return Lake(tmp_path, "values")


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
def test_a_file_that_is_damaged_after_its_first_block_has_no_rows(lake: Lake) -> None:
    kind, records = KINDS[lake.kind], [f"{number:06}" + "x" * 2_000 for number in range(2_500)]
    if kind.damage is None:
        pytest.skip("it is read from its end, so that damage shows before the first block")
    bodies = {"a": kind.damage(kind.write(records)), "b": kind.write(RECORDS)}
    sizes = {path: lake.land(path, stored) for path, stored in bodies.items()}
    assert sizes["a"] > CHUNK_BYTES or lake.kind == "columns"
    report = lake.read(*((path, size, 0, None, None, (), None) for path, size in sizes.items()))
    assert lake.rows(report) == [("b", n, record) for n, record in enumerate(RECORDS)]
    assert [(outcome.path, outcome.error is None) for outcome in report.outcomes] == [("a", False), ("b", True)]


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
        # A slice may end where the file does, so that none of it is left for the last one.
        assert outcome.records_read > read_so_far or (outcome.finished and outcome.records_read == len(records))
        read_so_far = outcome.records_read
        outcomes.append(outcome)
    assert sorted(rows) == [("large", number, record) for number, record in enumerate(records)]
    assert len(outcomes) > 2


def test_a_format_is_opened_by_its_name_alone() -> None:
    assert type(open_format("text", TEXT, Limits(), {})).__name__ == "TextFormat"


# --- What a format may not know ---

OF_SESSIONS = {
    "SparkSession",
    "SparkContext",
    "sparkSession",
    "sparkContext",
    "getActiveSession",
    "_jvm",
    "_jdf",
    "_sc",
}


def names_in(file: Path) -> set[str]:
    """Every name, attribute and import of a module."""
    found = set[str]()
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                found.add(name)
            case ast.alias(name=name):
                found.update(name.split("."))
    return found


def test_no_format_reaches_a_spark_session() -> None:
    """A DataFrame has its session, which no contract of imports can forbid."""
    files = sorted((ROOT / "spark_job" / "formats").rglob("*.py"))
    assert len(files) > 20
    assert [(file.name, name) for file in files for name in sorted(names_in(file) & OF_SESSIONS)] == []


def test_no_format_knows_another() -> None:
    """Also one that the contract in pyproject.toml does not list."""
    folders = {init.parent for init in (ROOT / "spark_job" / "formats").glob("*/__init__.py")}
    assert len(folders) >= 2
    for folder in folders:
        others = "|".join(other.name for other in folders - {folder})
        imports = re.compile(rf"^\s*(from|import) spark_job\.formats\.({others})\b", re.MULTILINE)
        assert [file.name for file in folder.glob("*.py") if imports.search(file.read_text())] == []


def test_a_task_gives_a_format_the_options_of_its_source(lake_of_values: Lake) -> None:
    """Without `member` the format could not tell the record from the rest of a value."""
    size = lake_of_values.land("a", b'{"row": {"id": "a"}, "id": "b"}')
    report = lake_of_values.read(("a", size, 0, None, None, (), None))
    assert lake_of_values.rows(report) == [("a", 0, "a")]
