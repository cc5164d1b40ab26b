"""The Parquet files that tasks write: every row in one file of its partition, memory bounded, nothing left behind."""

import gc
import itertools
import json
import random
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.errors import StorageUnavailable
from blizzard.storage.base import ObjectStore, ObjectWriter
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from spark_job.tasks.report import Report
from spark_job.write.parquet_files import DataFile, DataFileWriter, RowBuffer, TableLayout
from spark_job.write.partition_values import partition_folders
from spark_job.write.upload import ParquetUpload
from tests.unit.slow_s3 import SlowS3

PROVENANCE = pa.struct([("source", pa.string()), ("file", pa.string()), ("row", pa.int64())])
SCHEMA = pa.schema(
    [("id", pa.string()), ("kind", pa.string()), ("n", pa.int64()), ("day", pa.date32()), ("_source", PROVENANCE)]
)
MIB = 1 << 20
LAYOUT = TableLayout("", ("day", "kind"), ("id", "n", "_source.file"), 32, 1 << 20)


def writer_into(store: ObjectStore, layout: TableLayout = LAYOUT, schema: pa.Schema = SCHEMA, **more: Any) -> Any:
    numbers = itertools.count()
    arguments = {"new_name": lambda: f"{next(numbers):06}", "clock": lambda: 1.5} | more
    arguments.setdefault("buffer", RowBuffer(arguments.pop("buffer_bytes", 1 << 20)))
    return DataFileWriter(store, layout, schema, **arguments)


def memory() -> MemoryStore:
    return MemoryStore(time.time)


def words(texts: Sequence[str | None]) -> pa.DictionaryArray:
    return pa.array(texts, pa.string()).dictionary_encode()


Row = dict[str, Any]


def table_of(rows: Sequence[Row], *, with_words: bool) -> pa.Table:
    """The rows as they come from a parser: plain, or with dictionaries for what is the same in many of them."""
    plain = pa.Table.from_pylist(list(rows), SCHEMA)
    if not with_words:
        return plain
    provenance = plain["_source"].combine_chunks()
    children = [words(provenance.field("source").to_pylist()), words(provenance.field("file").to_pylist())]
    encoded = pa.StructArray.from_arrays(
        [*children, provenance.field("row")], names=["source", "file", "row"], mask=provenance.is_null()
    )
    return plain.set_column(1, "kind", words(plain["kind"].to_pylist())).set_column(4, "_source", encoded)


def stored(store: ObjectStore, file: DataFile, schema: pa.Schema = SCHEMA) -> list[Row]:
    """What a reader of the table gets from a file."""
    rows = pq.read_table(pa.BufferReader(store.get(file.path)))
    for name, text in file.partition_values.items():
        value = pa.scalar(text, pa.string()).cast(schema.field(name).type)
        rows = rows.append_column(schema.field(name), pa.array([value.as_py()] * rows.num_rows, value.type))
    return list(rows.select(schema.names).to_pylist())


def as_table_sees(row: Row) -> str:
    """In a partition column "" is null."""
    return shown(row | {"kind": row["kind"] or None})


def shown(row: Row) -> str:
    source = row["_source"]
    return repr([*(row[name] for name in SCHEMA.names[:-1]), source and sorted(source.items())])


# --- every row, once, in its place ---------------------------------------------------------------------------------

_text = st.none() | st.text(st.characters(codec="utf-8"), max_size=6)
_rows = st.lists(
    st.fixed_dictionaries(
        {
            "id": _text,
            "kind": st.sampled_from(["", "a b", "x/y=z", "é🎉", "%", None, "\x01"]),
            "n": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
            "day": st.sampled_from([None, date(1, 1, 1), date(1969, 12, 31), date(2024, 1, 28)]),
            "_source": st.none()
            | st.fixed_dictionaries({"source": _text, "file": st.sampled_from("abc"), "row": st.integers(0, 9)}),
        }
    ),
    max_size=40,
)
_tables = st.lists(st.tuples(_rows, st.booleans()), max_size=6)


@given(
    tables=_tables,
    buffer_bytes=st.sampled_from([1, 500, 5000, 1 << 20]),
    target_file_bytes=st.sampled_from([1, 2000, 1 << 20]),
    partition_by=st.sampled_from([(), ("day",), ("kind",), ("kind", "day")]),
)
@settings(max_examples=80)
def test_every_row_is_in_exactly_one_file_of_its_partition_and_in_order(
    tables: list[tuple[list[Row], bool]], buffer_bytes: int, target_file_bytes: int, partition_by: tuple[str, ...]
) -> None:
    store = memory()
    layout = replace(LAYOUT, partition_by=partition_by, target_file_bytes=target_file_bytes)
    writer = writer_into(store, layout, buffer_bytes=buffer_bytes)
    for rows, with_words in tables:
        writer.write(table_of(rows, with_words=with_words))
        assert writer.buffered_bytes <= buffer_bytes
    files = writer.close()
    seen: dict[tuple[str, ...], list[str]] = {}
    for file in files:
        assert set(file.partition_values) == set(partition_by)
        own = stored(store, file)
        assert len(own) == file.rows > 0
        place = tuple(map(str, file.partition_values.values()))
        seen.setdefault(place, []).extend(map(as_table_sees if "kind" in partition_by else shown, own))
    wanted: dict[tuple[str, ...], list[str]] = {}
    for row in itertools.chain.from_iterable(rows for rows, _ in tables):
        place = tuple(str(row[name] or None) for name in partition_by)
        wanted.setdefault(place, []).append(as_table_sees(row) if "kind" in partition_by else shown(row))
    assert seen == wanted


@given(_tables)
@settings(max_examples=25)
def test_what_is_said_of_a_file_is_so(tables: list[tuple[list[Row], bool]]) -> None:
    store = memory()
    writer = writer_into(store, buffer_bytes=300)
    for rows, with_words in tables:
        writer.write(table_of(rows, with_words=with_words))
    files = writer.close()
    assert {file.path: file.size for file in files} == {info.key: info.size for info in store.list()}
    for file in files:
        metadata = pq.read_metadata(pa.BufferReader(store.get(file.path)))
        assert file.rows == metadata.num_rows == json.loads(file.stats)["numRecords"]
        assert file.modified_ts == 1.5
        assert file.path.startswith(partition_folders(file.partition_values) + "part-")
        assert file.path.endswith(".snappy.parquet")
        assert Report.from_json(Report(data_files=[file]).to_json()).data_files == [file]


def test_layouts_travel() -> None:
    assert TableLayout.from_document(json.loads(json.dumps(asdict(LAYOUT)))) == LAYOUT


def test_files_lie_in_the_folder_of_the_layout() -> None:
    store = memory()
    writer = writer_into(store, replace(LAYOUT, folder="_blizzard/staging/7/"))
    writer.write(table_of([{"kind": "a", "day": date(2024, 1, 28)}], with_words=False))
    (file,) = writer.close()
    assert file.path == "_blizzard/staging/7/day=2024-01-28/kind=a/part-000000.snappy.parquet"


def test_nothing_written_is_nothing_there() -> None:
    store = memory()
    writer = writer_into(store)
    writer.write(SCHEMA.empty_table())
    assert writer.close() == []
    assert list(store.list()) == []


def test_the_parquet_schema_is_plain_and_without_arrows_own() -> None:
    store = memory()
    writer = writer_into(store)
    writer.write(table_of([{"id": "1", "kind": "a", "_source": {"file": "f"}}], with_words=True))
    (file,) = writer.close()
    metadata = pq.read_metadata(pa.BufferReader(store.get(file.path)))
    assert metadata.metadata is None
    leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    assert [(leaf.path, str(leaf.logical_type)) for leaf in leaves] == [
        ("id", "String"),
        ("n", "None"),
        ("_source.source", "String"),
        ("_source.file", "String"),
        ("_source.row", "None"),
    ]


def test_times_and_decimals_are_stored_as_spark_stores_them() -> None:
    kinds = {
        "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "small": pa.decimal128(9, 2),
        "middle": pa.decimal128(18, 2),
        "large": pa.decimal128(38, 2),
    }
    row = {"at": datetime(2024, 1, 1, tzinfo=UTC), "local": datetime(2024, 1, 1)}  # noqa: DTZ001
    table = pa.table({name: [row.get(name, Decimal("1.25"))] for name in kinds}, schema=pa.schema(kinds))
    store = memory()
    writer = writer_into(store, replace(LAYOUT, partition_by=()), table.schema)
    writer.write(table)
    (file,) = writer.close()
    metadata = pq.read_metadata(pa.BufferReader(store.get(file.path)))
    leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    assert [leaf.physical_type for leaf in leaves] == ["INT64", "INT64", "INT32", "INT64", "FIXED_LEN_BYTE_ARRAY"]
    assert [json.loads(leaf.logical_type.to_json()).get("isAdjustedToUTC") for leaf in leaves[:2]] == [True, False]


# --- sizes, memory, handles ----------------------------------------------------------------------------------------


def noise(rows: int, day: int = 1) -> pa.Table:
    """128 bytes a row that nothing compresses."""
    texts = [random.Random(number).randbytes(64).hex() for number in range(rows)]
    return table_of(
        [{"id": text, "day": date(2024, 1, day), "n": at} for at, text in enumerate(texts)], with_words=True
    )


def test_files_are_rolled_at_about_the_target() -> None:
    store = memory()
    writer = writer_into(store, replace(LAYOUT, target_file_bytes=100_000), buffer_bytes=1 << 20)
    for number in range(20):
        writer.write(noise(500, day=1 + number % 2))
    files = writer.close()
    by_day: dict[str | None, list[int]] = {}
    for file in files:
        by_day.setdefault(file.partition_values["day"], []).append(file.size)
    for sizes in by_day.values():
        assert all(100_000 <= size <= 170_000 for size in sizes[:-1])
        assert 4 <= len(sizes) <= 8


def test_one_large_table_becomes_several_row_groups_and_files() -> None:
    store = memory()
    writer = writer_into(store, replace(LAYOUT, target_file_bytes=200_000), buffer_bytes=10 << 20)
    writer.write(noise(8_000))
    files = writer.close()
    assert len(files) > 3
    groups = [pq.read_metadata(pa.BufferReader(store.get(file.path))).num_row_groups for file in files]
    assert max(groups) > 1


class CountingStore(MemoryStore):
    """Knows how many writers are open, how many were at most, and of writes that came too late."""

    def __init__(self) -> None:
        super().__init__(time.time)
        self.open = self.most = 0
        self.late: list[int] = []

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            with super().writer(key) as writer:
                yield WatchedWriter(writer, self.late)
        finally:
            self.open -= 1


@dataclass
class WatchedWriter:
    body: ObjectWriter
    late: list[int]

    @property
    def closed(self) -> bool:
        return self.body.closed

    def write(self, data: Any) -> int:
        if self.body.closed:
            self.late.append(len(data))
        return self.body.write(data)


def test_a_thousand_partitions_take_bounded_memory_and_handles() -> None:
    schema = pa.schema([("id", pa.string()), ("place", pa.int32())])
    table = pa.table(
        {"id": [f"{number:064}" for number in range(10_000)], "place": [n % 1000 for n in range(10_000)]}, schema=schema
    )
    store = CountingStore()
    layout = replace(LAYOUT, partition_by=("place",), stats_columns=("id",))
    writer = writer_into(store, layout, schema, buffer_bytes=table.nbytes)
    before, most = pa.total_allocated_bytes(), 0
    for _ in range(5):
        writer.write(table)
        most = max(most, pa.total_allocated_bytes() - before)
        assert writer.buffered_bytes <= table.nbytes
    assert most < 3 * table.nbytes
    files = writer.close()
    assert store.most <= 2 + 8 + 1
    assert store.open == 0
    assert Counter(file.partition_values["place"] for file in files).keys() == {str(n) for n in range(1000)}
    assert sum(file.rows for file in files) == 50_000


def test_what_open_uploads_hold_is_bounded_by_what_they_are_reckoned_at() -> None:
    """Rows wait in Arrow's memory, parts of uploads in Python's: the latter is what is measured."""
    buffer_bytes, rows, places = 64 << 20, 1 << 16, 8
    schema = pa.schema([("n", pa.int64()), ("place", pa.int32())])
    layout = replace(LAYOUT, partition_by=("place",), stats_columns=(), target_file_bytes=1 << 30)
    writer = writer_into(SlowS3(), layout, schema, buffer_bytes=buffer_bytes)
    noise = random.Random(1)
    tables = [
        pa.table([pa.array([noise.getrandbits(63) for _ in range(rows)]), pa.array([place] * rows, pa.int32())], schema)
        for place in range(places)
    ]
    tables = [pa.concat_tables([table] * (23 * MIB // table.nbytes)) for table in tables]
    tracemalloc.start()
    try:
        for table in tables * 3:
            writer.write(table)
        files = writer.close()
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(file.rows for file in files) == 3 * sum(table.num_rows for table in tables)
    assert 32 * MIB < held < buffer_bytes + 24 * MIB


class EndsSeen(MemoryStore):
    """Knows how many writers were at their end at the same time; each stays there for a moment, or until another one
    comes."""

    def __init__(self) -> None:
        super().__init__(time.time)
        self.most = self._ending = 0
        self._changed = threading.Condition()

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        with super().writer(key) as writer:
            yield writer
            with self._changed:
                self._ending += 1
                self.most = max(self.most, self._ending)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._ending > 1, 0.2)
                self._ending -= 1


@pytest.mark.parametrize(("rows", "at_once"), [(1 << 20, False), (1 << 10, True)])
def test_files_that_may_keep_a_whole_part_end_one_at_a_time_while_others_open(rows: int, *, at_once: bool) -> None:
    """In the end none opens, and all may end beside each other."""
    store = EndsSeen()
    schema = pa.schema([("n", pa.int64()), ("place", pa.int32())])
    layout = replace(LAYOUT, partition_by=("place",), target_file_bytes=1 << 30)
    writer = writer_into(store, layout, schema, buffer_bytes=4 * rows)
    noise = pa.py_buffer(random.Random(1).randbytes(8 * rows))
    column = pa.Array.from_buffers(pa.int64(), rows, [None, noise])
    for place in range(4):
        writer.write(pa.table([column, pa.array([place] * rows, pa.int32())], schema))
    meanwhile = store.most
    files = writer.close()
    assert {file.size > 4 * MIB for file in files} == {not at_once}
    assert (meanwhile > 1) == at_once
    assert store.most > 1


def test_the_partitions_that_get_rows_keep_their_files_open() -> None:
    """What is written to least recently ends, so that a cold partition does not cut the files of a warm one."""
    schema = pa.schema([("id", pa.string()), ("place", pa.int32())])
    store = memory()
    writer = writer_into(store, replace(LAYOUT, partition_by=("place",)), schema, buffer_bytes=1)
    for number in range(60):
        writer.write(pa.table({"id": ["x", "y"], "place": [0, number + 1]}, schema=schema))
    files = Counter(file.partition_values["place"] for file in writer.close())
    assert files["0"] == 1


def test_a_dictionary_is_not_written_to_files_that_use_little_of_it() -> None:
    paths = [f"folder/{number:06}/" + "x" * 60 for number in range(3000)]
    rows = [{"kind": f"k{n % 30}", "_source": {"file": paths[n], "row": 0}} for n in range(3000)]
    store = memory()
    writer = writer_into(store, replace(LAYOUT, partition_by=("kind",)))
    writer.write(table_of(rows, with_words=True))
    assert max(file.size for file in writer.close()) < 12_000


# --- encodings -----------------------------------------------------------------------------------------------------


def columns_of(store: ObjectStore, file: DataFile) -> dict[str, Any]:
    group = pq.read_metadata(pa.BufferReader(store.get(file.path))).row_group(0)
    return {column.path_in_schema: column for column in map(group.column, range(group.num_columns))}


def test_each_column_is_written_in_the_way_that_pays() -> None:
    rows = 40_000
    ids = random.Random(1).randbytes(rows * 8).hex()
    columns = {
        "id": [ids[at * 16 : at * 16 + 16] for at in range(rows)],
        "kind": [("click", "view")[at % 2] for at in range(rows)],
        "text": [f"the same words again and again, but for {at}" for at in range(rows)],
        "tags": [["red", "blue"][: at % 3] for at in range(rows)],
    }
    store = memory()
    table = pa.table(columns)
    writer = writer_into(store, replace(LAYOUT, partition_by=(), target_file_bytes=1 << 30), table.schema)
    writer.write(table)
    (file,) = writer.close()
    found = columns_of(store, file)
    assert {path for path, column in found.items() if column.has_dictionary_page} == {"kind", "tags.list.element"}
    assert {path for path, column in found.items() if column.compression == "UNCOMPRESSED"} == {"id"}
    assert pq.read_table(pa.BufferReader(store.get(file.path))).to_pydict() == columns


def dictionaries_of(
    rows: int, *, few: int = 0, wide: int = 0, target: int = 1 << 30, buffer_bytes: int = 100 << 20
) -> list[set[str]]:
    """The columns with a dictionary in each file: of a partition with `few` rows, which is written first, and of one
    with the others, whose column `kind` has few values. `wide`: bytes of a row that are like no other's."""
    store = memory()
    noise = random.Random(1).randbytes(rows * wide // 2).hex()
    table = pa.table(
        {
            "place": ["a"] * few + ["b"] * (rows - few),
            "id": [f"{at:016x}" for at in range(rows)],
            "kind": [f"{at % 20:064}" for at in range(rows)],
            "noise": [noise[at * wide : (at + 1) * wide] for at in range(rows)],
        }
    )
    layout = replace(LAYOUT, partition_by=("place",), target_file_bytes=target)
    writer = writer_into(store, layout, table.schema, buffer_bytes=buffer_bytes)
    for start in range(0, rows, 1_000):
        writer.write(table.slice(start, 1_000))
    found = (columns_of(store, file) for file in writer.close())
    return [{path for path, column in columns.items() if column.has_dictionary_page} for columns in found]


def test_a_handful_of_rows_does_not_decide_how_all_others_are_written() -> None:
    usual, others = dictionaries_of(40_000, few=5)
    assert {"id", "kind"} < usual
    assert {"id", "kind"} & others == {"kind"}


def test_rows_are_a_sample_where_a_row_group_has_no_more_of_them() -> None:
    first, *_, last = dictionaries_of(40_000, wide=1_000, target=2 << 20)
    assert {"id", "kind"} < first
    assert {"id", "kind"} & last == {"kind"}


def test_texts_of_many_dictionaries_stay_dictionary_encoded() -> None:
    store = memory()
    layout = replace(LAYOUT, partition_by=(), target_file_bytes=1 << 30)
    writer = writer_into(store, layout, buffer_bytes=100 << 20)
    for number in range(20):
        rows = [{"kind": "a", "_source": {"file": f"file-{number}", "row": at}} for at in range(5000)]
        writer.write(table_of(rows, with_words=True))
    (file,) = writer.close()
    column = columns_of(store, file)["_source.file"]
    assert column.has_dictionary_page
    assert column.total_uncompressed_size < 1000
    assert (column.statistics.min, column.statistics.max) == ("file-0", "file-9")


def test_words_may_be_there_twice_or_be_null() -> None:
    """Two files may have one etag."""
    given = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None, 3], pa.int8()), pa.array(["a", "b", "a", None]))
    columns = {"top": given, "in": pa.StructArray.from_arrays([given], names=["side"])}
    wanted = ["a", "b", "a", None, None, None]
    schema = pa.schema([("top", pa.string()), ("in", pa.struct([("side", pa.string())]))])
    store = memory()
    writer = writer_into(store, replace(LAYOUT, partition_by=()), schema)
    for _ in range(2):
        writer.write(pa.table(columns))
    (file,) = writer.close()
    found = pq.read_table(pa.BufferReader(store.get(file.path))).to_pydict()
    assert found == {"top": wanted * 2, "in": [{"side": text} for text in wanted * 2]}


# --- trouble -------------------------------------------------------------------------------------------------------


class FailingStore(MemoryStore):
    """Fails at the n-th step of writing, from 0."""

    def __init__(self, at: int, *, after: bool = False) -> None:
        super().__init__(time.time)
        self._steps = iter(range(at))
        self._after = after

    def _step(self) -> None:
        if next(self._steps, None) is None:
            raise StorageUnavailable("as injected")

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        self._step()
        with super().writer(key) as body:
            yield FailingWriter(body, self._step)
            if not self._after:
                self._step()
        if self._after:
            self._step()


class FailingWriter:
    def __init__(self, body: ObjectWriter, step: Callable[[], None]) -> None:
        self._body = body
        self._step = step
        self.closed = False

    def write(self, data: Any) -> int:
        self._step()
        return self._body.write(data)


def _write_and_close(writer: DataFileWriter) -> None:
    for number in range(8):
        writer.write(noise(100, day=1 + number % 4))
    writer.close()


@pytest.mark.parametrize("after", [False, True], ids=["lost", "answer lost"])
@pytest.mark.parametrize("at", [0, 1, 2, 5, 9, 13, 16, 18, 23])
def test_an_error_of_the_store_is_raised_and_discard_leaves_nothing(at: int, after: bool) -> None:
    store = FailingStore(at, after=after)
    writer = writer_into(store, replace(LAYOUT, target_file_bytes=20_000))
    with pytest.raises(StorageUnavailable, match="as injected"):
        _write_and_close(writer)
    writer.discard()
    assert list(store.list()) == []


@given(_tables, st.booleans(), st.sampled_from([1, 500, 1 << 20]), st.sampled_from([1, 2000, 1 << 20]))
@settings(max_examples=25)
def test_nothing_stays_after_discard(
    tables: list[tuple[list[Row], bool]], closed: bool, buffer_bytes: int, target_file_bytes: int
) -> None:
    store = memory()
    store.put("day=2024-01-28/kind=a/part-of-somebody-else.snappy.parquet", b"")
    writer = writer_into(store, replace(LAYOUT, target_file_bytes=target_file_bytes), buffer_bytes=buffer_bytes)
    for rows, with_words in tables:
        writer.write(table_of(rows, with_words=with_words))
    if closed:
        writer.close()
    writer.discard()
    writer.discard()
    assert [info.key for info in store.list()] == ["day=2024-01-28/kind=a/part-of-somebody-else.snappy.parquet"]


def test_an_upload_that_cannot_be_given_up_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    store = CountingStore()
    writer = writer_into(store, buffer_bytes=1)
    for day in (1, 2):
        writer.write(noise(60, day=day))
    assert store.open == 2
    real, failed = ParquetUpload.abort, list[str]()

    def abort(upload: ParquetUpload) -> None:
        real(upload)
        if not failed:
            failed.append(upload.key)
            raise StorageUnavailable("as injected")

    monkeypatch.setattr(ParquetUpload, "abort", abort)
    with pytest.raises(StorageUnavailable, match="as injected"):
        writer.discard()
    assert (store.open, [*store.list()]) == (0, [])


def test_writers_that_share_a_buffer_keep_to_their_parts_while_both_are_at_work() -> None:
    store, buffer, names = memory(), RowBuffer(2 * MIB), itertools.count()
    layout = replace(LAYOUT, target_file_bytes=64 * MIB)
    first, second, third = (
        writer_into(store, layout, buffer=buffer, new_name=lambda: f"{next(names):06}") for _ in range(3)
    )
    table = noise(1000)
    tables = [table] * (1_700_000 // table.nbytes)
    for rows in tables:
        first.write(rows)
    assert first.buffered_bytes > MIB
    for rows in tables:
        second.write(rows)
        assert first.buffered_bytes <= MIB
        assert second.buffered_bytes <= MIB
    second.close()
    for rows in tables:
        first.write(rows)
    first.discard()
    for rows in tables:
        third.write(rows)
    assert third.buffered_bytes > MIB
    assert sum(file.rows for file in third.close()) == len(tables) * table.num_rows


def test_a_store_that_fails_while_another_writer_makes_room_fails_the_one_that_begins() -> None:
    buffer, layout = RowBuffer(2 * MIB), replace(LAYOUT, target_file_bytes=64 * MIB)
    first, second = writer_into(FailingStore(0), layout, buffer=buffer), writer_into(memory(), buffer=buffer)
    table = noise(1000)
    for _ in range(1_700_000 // table.nbytes):
        first.write(table)
    with pytest.raises(StorageUnavailable):
        second.write(table)
    for writer in (first, second):
        writer.discard()


def test_nothing_is_written_behind_a_discard() -> None:
    """Arrow's writer ends a file by itself when it is let go."""
    store = CountingStore()
    writer = writer_into(store, buffer_bytes=1)
    writer.write(noise(60))
    assert store.open == 1
    writer.discard()
    del writer
    gc.collect()
    assert (store.open, store.late, list(store.list())) == (0, [], [])


def test_on_a_disk_nothing_stays_after_discard_either(tmp_path: Any) -> None:
    writer = writer_into(LocalStore(tmp_path), replace(LAYOUT, target_file_bytes=10_000))
    for day in range(1, 20):
        writer.write(noise(60, day=day))
    assert [path for path in tmp_path.rglob("*") if path.is_file()]
    writer.discard()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


# --- how partitions are spelled ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.string(), "a b/c:%=", "a b/c:%="),
        (pa.string(), "", None),
        (pa.string(), None, None),
        (pa.int8(), -5, "-5"),
        (pa.int64(), (1 << 63) - 1, "9223372036854775807"),
        (pa.bool_(), True, "true"),
        (pa.bool_(), False, "false"),
        (pa.date32(), date(1, 1, 1), "0001-01-01"),
        (pa.date32(), 2932897, "+10000-01-01"),
        (pa.date32(), -719530, "-0001-12-30"),
        (pa.decimal128(30, 4), Decimal("-0.0001"), "-0.0001"),
        (pa.decimal128(30, 4), Decimal("12345678901234567890.1000"), "12345678901234567890.1000"),
        (pa.timestamp("us", "UTC"), 1704067200000000, "2024-01-01T00:00:00.000000Z"),
        (pa.timestamp("us", "UTC"), -1, "1969-12-31T23:59:59.999999Z"),
        (pa.timestamp("us", "UTC"), 253402300800000000, "+10000-01-01T00:00:00.000000Z"),
        (pa.timestamp("us"), 1704067200000000, "2024-01-01 00:00:00"),
        (pa.timestamp("us"), -1, "1969-12-31 23:59:59.999999"),
        (pa.float64(), 0.1, "0.1"),
        (pa.float64(), -0.0, "-0.0"),
        (pa.float64(), float("nan"), "NaN"),
        (pa.float64(), float("-inf"), "-Infinity"),
    ],
)
@pytest.mark.parametrize("company", [False, True], ids=["alone", "among others"])
def test_partition_values_are_spelled_as_delta_spells_them(
    kind: pa.DataType, value: object, text: str | None, company: bool
) -> None:
    column = pa.array([value, None] if company else [value], kind)
    table = pa.table({"p": column, "n": range(len(column))})
    store = memory()
    writer = writer_into(store, replace(LAYOUT, partition_by=("p",)), table.schema)
    writer.write(table)
    assert {file.partition_values["p"] for file in writer.close()} == ({text, None} if company else {text})


def test_zero_and_minus_zero_are_two_values() -> None:
    table = pa.table({"p": [0.0, -0.0, 0.0], "n": [1, 2, 3]})
    writer = writer_into(memory(), replace(LAYOUT, partition_by=("p",)), table.schema)
    writer.write(table)
    assert {file.partition_values["p"]: file.rows for file in writer.close()} == {"0.0": 2, "-0.0": 1}


def test_folders_are_spelled_as_spark_spells_them() -> None:
    assert partition_folders({"p": "a b/c:%=", "q": None}) == "p=a b%2Fc%3A%25%3D/q=__HIVE_DEFAULT_PARTITION__/"
    assert partition_folders({"p": "\x01\x7f\"#'*?\\{[]^}é🎉"}) == "p=%01%7F%22%23%27%2A%3F%5C%7B%5B%5D%5E}é🎉/"


def test_a_value_that_is_too_long_for_a_folder_is_cut_and_still_its_own() -> None:
    found = {partition_folders({"p": "é" * 300 + ending}) for ending in "abc"}
    assert len(found) == 3
    assert all(len(folder.encode()) < 210 for folder in found)


def test_a_column_that_cannot_partition_is_refused() -> None:
    table = pa.table({"p": [b"x"], "n": [1]})
    writer = writer_into(memory(), replace(LAYOUT, partition_by=("p",)), table.schema)
    with pytest.raises(TypeError, match="expected simple values"):
        writer.write(table)
