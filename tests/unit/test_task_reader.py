"""What a task makes of its files: the records, their numbers, and one outcome for each file."""

import gzip
import io
import itertools
import json
import random
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type

from blizzard.errors import (
    AccessDenied,
    BlizzardError,
    BucketMissing,
    CredentialsRefused,
    KeyUnusable,
    NotFound,
    StorageBroken,
    StorageError,
    StorageUnavailable,
)
from blizzard.state.dead_letters import Stage
from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore, ObjectWriter
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from spark_job.formats.deferred import deferred_records_type
from spark_job.formats.lines import LineBlock
from spark_job.formats.protocol import Format, Limits, Parsed
from spark_job.formats.text.format import TextFormat
from spark_job.ports.reader import FailureKind, Outcome
from spark_job.tasks.deferred_records import DeferredRecords
from spark_job.tasks.fetch import WHOLE_BYTES, FetchAhead, TaskFile, openings
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.report import Report
from spark_job.tasks.task_reader import ReadSettings, TaskReader
from spark_job.write.parquet_files import DataFileWriter, RowBuffer, TableLayout
from spark_job.write.write_errors import CannotWriteError
from tests.unit.fakes import Clock
from tests.unit.plain_lines import TEXT_SCHEMA, PlainLines

NOW_TS = 1_706_450_400.0
LEFT_FOLDER = "_blizzard/staging/a/"
MIB = 1 << 20


@dataclass
class Read:
    """What came out of a task: the rows of its data files, the lines that are left, its report."""

    records: list[dict[str, Any]] = field(default_factory=list)
    report: Report = field(default_factory=Report)

    @property
    def outcomes(self) -> list[Outcome]:
        return self.report.outcomes

    @property
    def lines(self) -> list[str]:
        return [record["line"] for record in self.records]

    @property
    def outcome(self) -> Outcome:
        assert len(self.outcomes) == 1
        return self.outcomes[0]


def a_store(**objects: bytes) -> MemoryStore:
    store = MemoryStore(lambda: NOW_TS)
    for name, body in objects.items():
        store.put(name.replace("__", "/"), body)
    return store


def files_of(store: ObjectStore) -> list[TaskFile]:
    return [TaskFile(info.key, info.size) for info in store.list()]


def format_of(settings: ReadSettings) -> Format[Any]:
    return TextFormat(TEXT_SCHEMA, settings.limits) if settings.format == "text" else PlainLines(settings.limits)


@dataclass
class Task:
    """A task whose records are lines, so that what is written can be compared with what was read."""

    store: ObjectStore
    partition_columns: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    remote: bool = True
    monotonic: Callable[[], float] = time.monotonic
    file_format: Format[Any] | None = None
    table: ObjectStore = field(default_factory=lambda: MemoryStore(lambda: NOW_TS))

    @property
    def origin(self) -> Provenance:
        return Provenance("events:landing", 7, {f"partition_{n}": "string" for n in range(self.partition_columns)})

    def report(self, files: Sequence[TaskFile]) -> Report:
        settings = ReadSettings(**self.settings)
        names = map(str, itertools.count())
        schema = pa.schema([("value", pa.string()), *self.origin.fields])
        left_schema = pa.schema(to_arrow_type(deferred_records_type(self.partition_columns)))

        def opener(folder: str, schema: pa.Schema) -> Callable[[], DataFileWriter]:
            buffer = RowBuffer(settings.buffer_bytes)
            return lambda: DataFileWriter(
                self.table,
                TableLayout(folder, (), (), 32, 1 << 27),
                schema,
                buffer=buffer,
                new_name=lambda: next(names),
                clock=lambda: NOW_TS,
            )

        return TaskReader(
            self.store,
            settings,
            self.file_format or format_of(settings),
            self.origin,
            opener("", schema),
            DeferredRecords(left_schema, opener(LEFT_FOLDER, left_schema)),
            remote=self.remote,
            parsers=2,
            monotonic=self.monotonic,
        ).read(files)

    def left_of(self, report: Report) -> list[dict[str, Any]]:
        """Lines that are left, by file and number."""
        lines: list[dict[str, Any]] = []
        for data_file in report.deferred:
            assert data_file.path.startswith(LEFT_FOLDER)
            rows = pq.read_table(io.BytesIO(self.table.get(data_file.path))).to_pylist()
            assert len(rows) == data_file.rows
            lines += rows
        return sorted(lines, key=lambda line: (line["file"], line["row"]))

    def read(self, files: Sequence[TaskFile]) -> Read:
        found = Read(report=Report.from_json(self.report(files).to_json()))
        found.records += self.left_of(found.report)
        for data_file in found.report.data_files:
            table = pq.read_table(io.BytesIO(self.table.get(data_file.path)))
            assert table.num_rows == data_file.rows
            for row in table.to_pylist():
                source = row.pop("_source")
                assert (source.pop("source"), source.pop("sequence")) == ("events:landing", 7)
                line = row.pop("value")
                found.records.append({**source, "line": line, "fault": None, "undecodable": None, **row})
        found.records.sort(key=lambda record: (record["file"], record["row"]))
        return found


def read(store: ObjectStore, files: Sequence[TaskFile] = (), *, remote: bool = True, **settings: Any) -> Read:
    """Of everything in the store, unless files are named."""
    wanted = list(files) or files_of(store)
    return Task(store, len(wanted[0].partitions), settings, remote).read(wanted)


def read_one(body: bytes, path: str = "a.ndjson", **settings: Any) -> Read:
    store = MemoryStore(lambda: NOW_TS)
    store.put(path, body)
    return read(store, **settings)


def numbered(count: int, pad: int = 0) -> bytes:
    return b"".join(b'{"n": %d, "pad": "%s"}\n' % (n, b"x" * pad) for n in range(count))


# --- Records and their numbers ---


def test_a_record_carries_its_file_number_etag_time_and_partition_values() -> None:
    store = a_store(**{"date=2024-01-28__a.ndjson": b'{"n": 0}\n{"n": 1}\n'})
    info = next(store.list())
    found = read(store, [TaskFile(info.key, info.size, partitions=("2024-01-28", None))])
    second = found.records[1]
    assert (second["file"], second["row"], second["etag"], second["line"]) == (info.key, 1, info.etag, '{"n": 1}')
    assert second["modified"].timestamp() == NOW_TS
    assert (second["partition_0"], second["partition_1"]) == ("2024-01-28", None)


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (b'{"n": 0}\n{"n": 1}\n', [(0, '{"n": 0}'), (1, '{"n": 1}')]),
        (b'{"n": 0}\n{"n": 1}', [(0, '{"n": 0}'), (1, '{"n": 1}')]),
        (b'{"n": 0}\r\n{"n": 1}\r\n', [(0, '{"n": 0}'), (1, '{"n": 1}')]),
        (b'{"n": 0}\r\n{"n": 1}\r', [(0, '{"n": 0}'), (1, '{"n": 1}\r')]),
        (b'{"n": 0}\r\n\r', [(0, '{"n": 0}')]),
        (b'\xef\xbb\xbf{"n": 0}\n', [(0, '{"n": 0}')]),
        (b'\n{"n": 0}\n \t\r\n\n{"n": 1}\n\n', [(0, '{"n": 0}'), (1, '{"n": 1}')]),
        (b"", []),
        (b"\n\n", []),
    ],
)
def test_blank_lines_are_no_records_and_do_not_count(body: bytes, rows: list[tuple[int, str]]) -> None:
    found = read_one(body)
    assert [(record["row"], record["line"]) for record in found.records] == rows
    assert found.outcome.error is None
    assert found.outcome.records_read == len(rows)


def test_every_line_of_text_is_a_record_blank_or_not() -> None:
    found = read_one(b"\xef\xbb\xbffirst\n\n  \nno { json\r\n", format="text")
    assert [(record["row"], record["line"]) for record in found.records] == [
        (0, "first"),
        (1, ""),
        (2, "  "),
        (3, "no { json"),
    ]


def test_an_empty_file_is_read_to_its_end_with_no_rows() -> None:
    outcome = read_one(b"").outcome
    assert (outcome.rows, outcome.finished, outcome.error) == (0, True, None)


# --- Codecs ---


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("a.ndjson", numbered(3)),
        ("a.ndjson.gz", gzip.compress(numbered(3))),
        ("a.ndjson.zst", zstd(numbered(3))),
        ("members.ndjson.gz", gzip.compress(b'{"n": 0, "pad": ""}\n{"n": ') + gzip.compress(numbered(3)[26:])),
    ],
)
def test_a_compressed_file_gives_the_records_of_a_plain_one(path: str, body: bytes) -> None:
    assert read_one(body, path).lines == numbered(3).decode().splitlines()


@pytest.mark.parametrize(
    ("path", "body", "stage", "reason"),
    [
        ("a.gz", gzip.compress(numbered(9))[:-3], Stage.DECOMPRESS, "truncated gzip"),
        ("a.gz", numbered(9), Stage.DECOMPRESS, "not valid gzip"),
        ("a.gz", gzip.compress(numbered(9)) + b"and more", Stage.DECOMPRESS, "or other bytes follow it"),
        ("a.zst", zstd(numbered(9))[:-3], Stage.DECOMPRESS, "zstd"),
        ("a.zst", gzip.compress(numbered(9)), Stage.DECOMPRESS, "not valid zstd"),
        ("a.ndjson", gzip.compress(numbered(9)), Stage.PARSE, "not UTF-8"),
        ("a.ndjson", b'{"n": 0}\n{"n": "\xe9"}\n', Stage.PARSE, "not UTF-8: line 1 at byte 7"),
    ],
)
def test_a_file_that_cannot_be_read_says_how_far_it_got(path: str, body: bytes, stage: Stage, reason: str) -> None:
    outcome = read_one(body, path).outcome
    assert outcome.stage is stage
    assert reason in str(outcome.error)
    assert (outcome.finished, outcome.trouble) == (True, None)


def test_text_that_is_no_utf8_is_refused_alone_with_its_bytes_kept() -> None:
    found = read_one(b"good\nna\xefve\n\xff\xfe\n", format="text")
    assert [record["line"] for record in found.records] == ["good", None, None]
    assert [record["undecodable"] for record in found.records] == [None, b"na\xefve", b"\xff\xfe"]
    assert "not UTF-8 at byte 2" in found.records[1]["fault"]
    assert found.outcome.error is None


# --- What took how long ---


class SlowStore(MemoryStore):
    """Opening an object takes a second, and writing one as long as `write_secs`."""

    def __init__(self, clock: Clock, write_secs: float) -> None:
        super().__init__(lambda: NOW_TS)
        self._clock = clock
        self._write_secs = write_secs

    @contextmanager
    def open(self, key: str) -> Iterator[ObjectReader]:
        self._clock.advance(1.0)
        with super().open(key) as reader:
            yield reader

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        self._clock.advance(self._write_secs)
        with super().writer(key) as writer:
            yield writer


def test_a_report_says_how_long_the_task_took_and_how_much_of_it_went_into_data_files() -> None:
    clock = Clock(0.0)
    store = SlowStore(clock, 8.0)
    for name in ("a", "b"):
        store.put(f"{name}.ndjson", numbered(3))
    found = Task(store, settings={"format": "text"}, remote=False, monotonic=clock, table=SlowStore(clock, 8.0))
    report = found.read(files_of(store)).report
    assert (report.secs, report.write_secs) == (10.0, 8.0)


# --- Limits ---


POOLS: list[pa.MemoryPool] = []
"""What Arrow allocated from one is freed in it, so none may go."""


def peak_bytes(store: ObjectStore, table: LocalStore, **settings: Any) -> tuple[int, Report]:
    """Of Python's memory and Arrow's while every file is read; each at its worst, though not at the same time."""
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    POOLS.append(pool)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        report = Task(store, 0, settings, table=table).report(files_of(store))
        return tracemalloc.get_traced_memory()[1] + pool.max_memory(), report
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)


def test_a_line_of_100_mb_is_refused_by_the_limits_name_in_bounded_memory(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    with (landing / "long.ndjson").open("wb") as file:
        file.write(b'{"n": 0}\n{"long": "')
        file.writelines(b"x" * MIB for _ in range(100))
        file.write(b'"}\n')
    peak, report = peak_bytes(LocalStore(landing), LocalStore(tmp_path / "table"))
    (outcome,) = report.outcomes
    assert "max_record_bytes" in str(outcome.error)
    assert outcome.stage is Stage.PARSE
    assert peak < 64 * MIB


def test_a_bomb_of_200_mb_of_zeros_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    with gzip.open(landing / "bomb.ndjson.gz", "wb", compresslevel=1) as file:
        file.writelines(bytes(MIB) for _ in range(200))
    peak, report = peak_bytes(LocalStore(landing), LocalStore(tmp_path / "table"))
    (outcome,) = report.outcomes
    assert "max_record_bytes" in str(outcome.error)
    assert peak < 64 * MIB


def test_a_file_beyond_its_limit_is_refused_by_the_limits_name() -> None:
    outcome = read_one(gzip.compress(numbered(1000)), "a.gz", limits=Limits(max_file_bytes=10_000)).outcome
    assert outcome.stage is Stage.DECOMPRESS
    assert "max_file_bytes" in str(outcome.error)


# --- Storage in trouble ---


class Refusing(MemoryStore):
    """Raises `errors[key]` when that object is opened."""

    def __init__(self, errors: dict[str, BlizzardError]) -> None:
        super().__init__(lambda: NOW_TS)
        self._errors = errors

    @contextmanager
    def open(self, key: str) -> Iterator[ObjectReader]:
        if key in self._errors:
            raise self._errors[key]
        with super().open(key) as reader:
            yield reader


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (NotFound("get b: there is no such object"), None),
        (StorageError("get b: the object is archived"), None),
        (AccessDenied("get b: S3 answered 403"), FailureKind.DENIED),
        (CredentialsRefused("get b: S3 answered ExpiredToken"), FailureKind.SYSTEMIC),
        (BucketMissing("get b: there is no such bucket"), FailureKind.SYSTEMIC),
        (KeyUnusable("get b: S3 answered KMS.DisabledException"), FailureKind.DENIED),
        (StorageBroken("get b: Input/output error"), FailureKind.SYSTEMIC),
    ],
)
@pytest.mark.parametrize("size", [9, WHOLE_BYTES + 1])
def test_an_object_that_cannot_be_had_is_told_apart_and_the_others_are_read(
    error: BlizzardError, trouble: FailureKind | None, size: int
) -> None:
    store = Refusing({"b": error})
    store.put("a", b'{"n": 0}\n')
    store.put("c", b'{"n": 1}\n')
    found = read(store, [TaskFile(key, size) for key in "abc"])
    assert found.lines == ['{"n": 0}', '{"n": 1}']
    failed = next(outcome for outcome in found.outcomes if outcome.path == "b")
    assert (failed.stage, failed.trouble, failed.rows) == (Stage.DOWNLOAD, trouble, 0)


def test_an_outage_ends_the_task_and_no_further_file_waits_it_out() -> None:
    outage = StorageUnavailable("get b: given up after 8 attempts")
    store = Refusing({"b": outage, "c": AssertionError("asked again")})  # type: ignore[dict-item]
    store.put("a", b'{"n": 0}\n')
    found = read(store, [TaskFile(key, WHOLE_BYTES + 1) for key in "abc"])
    assert [outcome.trouble for outcome in found.outcomes] == [None, FailureKind.TRANSIENT, FailureKind.TRANSIENT]
    assert str(outage) in str(found.outcomes[2].error)


def test_a_file_that_is_gone_says_so() -> None:
    found = read(a_store(), [TaskFile("gone.ndjson", 9)])
    assert found.outcome.error == "gone: there is no such object"
    assert found.records == []


def test_a_file_in_progress_that_changed_is_refused() -> None:
    store = a_store(a=numbered(9))
    found = read(store, [TaskFile("a", 9, skip_records=4, slice_bytes=100, expected_etag="another")])
    assert found.records == []
    assert "it changed while in progress: 4 records of etag another are committed" in str(found.outcome.error)


def test_what_became_of_a_file_in_progress_is_said_of_the_content_it_had() -> None:
    """Of the new content nothing is known: as if it were, no sweep would ever ask for it."""
    part = TaskFile("a", 9, skip_records=4, slice_bytes=100, expected_etag="another")
    changed = read(a_store(a=numbered(9)), [part]).outcome
    assert (changed.etag, changed.size) == ("another", 9)


def test_of_a_file_in_progress_that_is_gone_no_content_is_known() -> None:
    part = TaskFile("a", 9, skip_records=4, slice_bytes=100, expected_etag="another")
    assert read(a_store(), [part]).outcome.etag == ""


def test_a_file_in_progress_that_is_the_same_goes_on() -> None:
    store = a_store(a=numbered(9))
    etag = next(store.list()).etag
    found = read(store, [TaskFile("a", 9, skip_records=4, slice_bytes=10_000, expected_etag=etag)])
    assert [record["row"] for record in found.records] == [4, 5, 6, 7, 8]


def test_a_file_that_its_path_refuses_is_not_read_but_its_etag_is_known() -> None:
    store = a_store(a=b'{"n": 0}\n')
    found = read(store, [TaskFile("a", 9, refusal="no folder `date=`")])
    assert found.records == []
    assert (found.outcome.stage, found.outcome.error) == (Stage.PARSE, "no folder `date=`")
    assert found.outcome.etag == next(store.list()).etag


# --- What nobody foresaw ---


class Unforeseen(Exception):
    """As a bug would raise it, or memory that ran out."""


def test_an_error_that_nobody_foresaw_names_the_file_that_was_read() -> None:
    store = Refusing({"b": Unforeseen()})  # type: ignore[dict-item]
    store.put("a", b"one")
    store.put("c", b"two")
    with pytest.raises(Unforeseen) as raised:
        read(store, [TaskFile(key, 3) for key in "abc"])
    assert raised.value.__notes__ == ["while reading b"]


class Choking(PlainLines):
    """Takes no poison."""

    def parse(self, blocks: Sequence[LineBlock]) -> Parsed:
        if any(b"poison" in block.data for block in blocks):
            raise Unforeseen
        return super().parse(blocks)


@pytest.mark.parametrize(("files", "named"), [("b", "b"), ("bc", "b, c"), ("abcde", "a, b, c and 2 other files")])
def test_a_block_that_breaks_the_parser_names_the_files_whose_lines_it_has(files: str, named: str) -> None:
    task = Task(a_store(**dict.fromkeys(files, b"poison\nmore")), file_format=Choking())
    with pytest.raises(Unforeseen) as raised:
        task.report(files_of(task.store))
    assert raised.value.__notes__ == [f"while parsing lines of {named}"]


def test_a_large_file_that_breaks_the_parser_is_named_alone_though_another_thread_parsed_it() -> None:
    large = numbered(900, pad=10_000)
    task = Task(a_store(a=b"good", b=large + b"poison", c=b"poison"), settings=LARGE, file_format=Choking())
    with pytest.raises(Unforeseen) as raised:
        task.report(files_of(task.store))
    assert raised.value.__notes__ == ["while parsing lines of b"]


def test_rows_that_break_the_writer_name_the_files_they_may_be_of() -> None:
    class Broken(MemoryStore):
        def writer(self, key: str) -> Any:
            raise Unforeseen

    task = Task(a_store(a=numbered(3), b=numbered(4)), table=Broken(lambda: NOW_TS))
    with pytest.raises(Unforeseen) as raised:
        task.report(files_of(task.store))
    assert raised.value.__notes__ == ["while reading a, b"]
    assert [*task.table.list()] == []


# --- Slices ---


def slices_of(store: ObjectStore, slice_bytes: int, **settings: Any) -> list[Read]:
    """Read the only file as batches do: each slice skips what those before it have read."""
    file = replace(files_of(store)[0], slice_bytes=slice_bytes)
    slices: list[Read] = []
    while not slices or not slices[-1].outcome.finished:
        done = slices[-1].outcome.records_read if slices else 0
        slices.append(read(store, [replace(file, skip_records=done)], **settings))
        assert len(slices) < 500, "it makes no progress"
    return slices


@settings(max_examples=30)
@given(
    sizes=st.lists(st.sampled_from([0, 0, 10, 1_000, 300_000, 1_200_000]), max_size=12),
    slice_bytes=st.sampled_from([1, 5_000, 1_000_000, 2_500_000]),
    codec=st.sampled_from(["none", "gzip"]),
    blank=st.booleans(),
)
@example(sizes=[], slice_bytes=1, codec="none", blank=False)
@example(sizes=[1_200_000] * 4, slice_bytes=1, codec="none", blank=True)
def test_slices_add_up_to_the_whole_file_once(sizes: list[int], slice_bytes: int, codec: str, *, blank: bool) -> None:
    chance = random.Random(len(sizes))
    records = [json.dumps({"n": n, "pad": chance.randbytes(size // 2).hex()}) for n, size in enumerate(sizes)]
    body = ("\n\n" if blank else "\n").join(records).encode()
    store = a_store(a=gzip.compress(body, 1) if codec == "gzip" else body)
    slices = slices_of(store, slice_bytes, compression=codec)
    rows = [(record["row"], record["line"]) for part in slices for record in part.records]
    assert rows == list(enumerate(records))
    assert sum(part.outcome.rows for part in slices) == len(records)


def test_a_slice_ends_soon_after_its_share() -> None:
    store = a_store(a=numbered(600, pad=10_000))
    slices = slices_of(store, 2 * MIB)
    assert 3 <= len(slices) <= 4
    assert all(part.outcome.rows > 0 for part in slices)


def test_a_slice_of_text_goes_on_at_the_right_line() -> None:
    body = b"".join(b"%07d %s\n" % (n, b"x" * 5_000) for n in range(800))
    rows = [record for part in slices_of(a_store(a=body), MIB, format="text") for record in part.records]
    assert [record["row"] for record in rows] == list(range(800))
    assert all(int(record["line"][:7]) == record["row"] for record in rows)


# --- Fetching ahead ---


def test_objects_fetched_ahead_give_what_streamed_ones_give() -> None:
    bodies = {f"f{n:03d}": numbered(n) for n in range(300)}
    store = a_store(**bodies)
    ahead = read(store)
    streamed = read(store, [replace(file, size=WHOLE_BYTES + 1) for file in files_of(store)])
    inline = read(store, remote=False)
    assert ahead.records == streamed.records == inline.records
    assert ahead.outcomes == streamed.outcomes == inline.outcomes
    assert sum(map(len, ahead.lines)) == sum(len(body.replace(b"\n", b"")) for body in bodies.values())


def test_an_object_that_grew_beyond_what_is_fetched_whole_is_read_all_the_same() -> None:
    body = numbered(300, pad=10_000)
    found = read(a_store(a=body), [TaskFile("a", 10)], memory_bytes=8 * MIB)
    assert len(body) > 8 * MIB // 8
    assert len(found.records) == 300
    assert found.outcome.size == len(body)


def test_no_more_is_fetched_ahead_than_a_task_may_hold() -> None:
    store = Watched()
    for n in range(40):
        store.put(f"{n:03d}", bytes(MIB))
    for turn, opening in enumerate(openings(store, files_of(store), FetchAhead(threads=8, bytes=4 * MIB)), start=1):
        assert store.opened <= turn + 5
        with ExitStack() as stack:
            assert len(opening.enter(stack).read()) == MIB


# --- Files that are too large to be held ---

LARGE = {"memory_bytes": 4 * MIB}
"""So that a file of more than 1 MiB has data files of its own."""


def test_the_rows_of_a_large_file_are_in_data_files_of_its_own() -> None:
    task = Task(a_store(a=numbered(3), b=numbered(900, pad=10_000), c=numbered(4)), settings=LARGE)
    found = task.read(files_of(task.store))
    assert [record["row"] for record in found.records] == [*range(3), *range(900), *range(4)]
    assert sorted(file.rows for file in found.report.data_files) == [7, 900]


def test_a_large_file_that_turns_out_broken_leaves_no_row_and_no_data_file() -> None:
    broken = gzip.compress(numbered(900, pad=10_000))[:-9]
    task = Task(a_store(**{"a": numbered(3), "b.gz": broken, "c": numbered(4)}), settings=LARGE)
    found = task.read(files_of(task.store))
    assert [outcome.error is None for outcome in found.outcomes] == [True, False, True]
    assert {record["file"] for record in found.records} == {"a", "c"}
    assert [info.key for info in task.table.list()] == [file.path for file in found.report.data_files]


def test_the_rows_of_a_large_file_are_written_in_their_order() -> None:
    task = Task(a_store(a=numbered(4000, pad=10_000)), settings=LARGE)
    (written,) = task.report(files_of(task.store)).data_files
    rows = pq.read_table(io.BytesIO(task.table.get(written.path)))["_source"].combine_chunks().field("row")
    assert rows.to_pylist() == [*range(4000)]


def test_a_large_file_that_is_given_up_once_a_part_of_it_is_written_leaves_nothing() -> None:
    begun = threading.Event()

    class Late(Choking):
        """Comes to the poison once a file was begun."""

        def parse(self, blocks: Sequence[LineBlock]) -> Parsed:
            assert not any(b"poison" in block.data for block in blocks) or begun.wait(60.0)
            return super().parse(blocks)

    class Noting(MemoryStore):
        def writer(self, key: str) -> Any:
            begun.set()
            return super().writer(key)

    body = numbered(4000, pad=10_000) + b"poison"
    task = Task(a_store(a=body), settings=LARGE, file_format=Late(), table=Noting(lambda: NOW_TS))
    with pytest.raises(Unforeseen):
        task.report(files_of(task.store))
    assert [*task.table.list()] == []


def test_storage_that_refuses_a_data_file_is_no_fault_of_the_file_that_is_read() -> None:
    class Full(MemoryStore):
        def put(self, key: str, data: bytes) -> ObjectInfo:
            raise AccessDenied(f"put {key}: no")

        def writer(self, key: str) -> Any:
            raise AccessDenied(f"put {key}: no")

    task = Task(a_store(a=numbered(3)), table=Full(lambda: NOW_TS))
    with pytest.raises(CannotWriteError, match="no"):
        task.read(files_of(task.store))


# --- Lines that are left to Spark's parser ---

UNDECODABLE = b"\xff" * 1000
TEXT = {"format": "text"}


def test_lines_that_are_left_are_written_as_they_come_and_none_is_held_for_long(tmp_path: Path) -> None:
    landing = LocalStore(tmp_path / "landing")
    for n in range(100):
        landing.put(f"{n:03d}", b"\n".join([UNDECODABLE] * 1000))
    peak, report = peak_bytes(landing, LocalStore(tmp_path / "table"), memory_bytes=4 * MIB, **TEXT)
    assert sum(outcome.rows for outcome in report.outcomes) == sum(file.rows for file in report.deferred) == 100_000
    assert peak < 64 * MIB


def test_each_line_that_is_left_keeps_its_file_its_number_and_its_bytes() -> None:
    lines = [UNDECODABLE if n % 3 == 0 else b"good" for n in range(60_000)]
    task = Task(a_store(a=b"\n".join(lines), b=b"\xfe"), settings=TEXT)
    left = task.left_of(task.report(files_of(task.store)))
    expected = [("a", n, UNDECODABLE) for n in range(0, 60_000, 3)] + [("b", 0, b"\xfe")]
    assert [(row["file"], row["row"], row["undecodable"]) for row in left] == expected
    assert {row["line"] for row in left} == {None}


def test_storage_that_refuses_the_lines_that_are_left_is_no_fault_of_the_file_that_is_read() -> None:
    class Full(MemoryStore):
        def writer(self, key: str) -> Any:
            raise AccessDenied(f"put {key}: no")

    task = Task(a_store(a=UNDECODABLE), settings=TEXT, table=Full(lambda: NOW_TS))
    with pytest.raises(CannotWriteError, match="no"):
        task.report(files_of(task.store))


def test_a_task_that_cannot_write_its_rows_leaves_no_lines_behind() -> None:
    class NoRows(MemoryStore):
        def writer(self, key: str) -> Any:
            if key.startswith(LEFT_FOLDER):
                return super().writer(key)
            raise AccessDenied(f"put {key}: no")

    task = Task(a_store(a=b"\n".join([UNDECODABLE] * 30_000), b=b"good"), settings=TEXT, table=NoRows(lambda: NOW_TS))
    with pytest.raises(CannotWriteError, match="no"):
        task.report(files_of(task.store))
    assert [*task.table.list()] == []


class Watched(MemoryStore):
    def __init__(self) -> None:
        super().__init__(lambda: NOW_TS)
        self.opened = 0

    @contextmanager
    def open(self, key: str) -> Iterator[ObjectReader]:
        self.opened += 1
        with super().open(key) as reader:
            yield reader
