"""Data files that tasks write: every row once, in a file of its partition, in types and encodings that readers know."""

import itertools
import json
import random
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.storage.base import ObjectStore
from spark_job.tasks.report import Report
from spark_job.write.data_file import DataFile, TableLayout
from spark_job.write.partition_values import partition_folders
from tests.unit.parquet_rows import (
    LAYOUT,
    SCHEMA,
    Row,
    as_table_sees,
    memory,
    shown,
    stored,
    table_of,
    tables_of_rows,
    writer_into,
)


@given(
    tables=tables_of_rows,
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
    for rows, as_dictionary in tables:
        writer.write(table_of(rows, as_dictionary=as_dictionary))
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


@given(tables_of_rows)
@settings(max_examples=25)
def test_size_row_count_and_path_of_a_data_file_are_true(tables: list[tuple[list[Row], bool]]) -> None:
    store = memory()
    writer = writer_into(store, buffer_bytes=300)
    for rows, as_dictionary in tables:
        writer.write(table_of(rows, as_dictionary=as_dictionary))
    files = writer.close()
    assert {file.path: file.size for file in files} == {info.key: info.size for info in store.list()}
    for file in files:
        metadata = pq.read_metadata(pa.BufferReader(store.get(file.path)))
        assert file.rows == metadata.num_rows == json.loads(file.stats)["numRecords"]
        assert file.modified_ts == 1.5
        assert file.path.startswith(partition_folders(file.partition_values) + "part-")
        assert file.path.endswith(".snappy.parquet")
        assert Report.from_json(Report(data_files=[file]).to_json()).data_files == [file]


def test_a_layout_survives_json() -> None:
    assert TableLayout.from_document(json.loads(json.dumps(asdict(LAYOUT)))) == LAYOUT


def test_files_are_written_below_the_folder_of_the_layout() -> None:
    store = memory()
    writer = writer_into(store, replace(LAYOUT, folder="_blizzard/staging/7/"))
    writer.write(table_of([{"kind": "a", "day": date(2024, 1, 28)}], as_dictionary=False))
    (file,) = writer.close()
    assert file.path == "_blizzard/staging/7/day=2024-01-28/kind=a/part-000000.snappy.parquet"


def test_a_writer_without_rows_writes_no_file() -> None:
    store = memory()
    writer = writer_into(store)
    writer.write(SCHEMA.empty_table())
    assert writer.close() == []
    assert list(store.list()) == []


def test_the_parquet_schema_has_plain_strings_and_no_arrow_schema() -> None:
    store = memory()
    writer = writer_into(store)
    writer.write(table_of([{"id": "1", "kind": "a", "_source": {"file": "f"}}], as_dictionary=True))
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


# --- encodings ---


def columns_of(store: ObjectStore, file: DataFile) -> dict[str, Any]:
    group = pq.read_metadata(pa.BufferReader(store.get(file.path))).row_group(0)
    return {column.path_in_schema: column for column in map(group.column, range(group.num_columns))}


def test_each_column_gets_the_encoding_that_makes_it_smaller() -> None:
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
    """For each file the columns with a dictionary: of a partition with `few` rows, which is written first, and of one
    with all others. Column `kind` has few values. `wide`: bytes of noise in each row."""
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


def test_a_few_rows_do_not_decide_the_encoding_of_all_others() -> None:
    usual, others = dictionaries_of(40_000, few=5)
    assert {"id", "kind"} < usual
    assert {"id", "kind"} & others == {"kind"}


def test_a_whole_row_group_is_a_sample_even_with_few_rows() -> None:
    first, *_, last = dictionaries_of(40_000, wide=1_000, target=2 << 20)
    assert {"id", "kind"} < first
    assert {"id", "kind"} & last == {"kind"}


def test_strings_from_many_dictionaries_stay_dictionary_encoded() -> None:
    store = memory()
    layout = replace(LAYOUT, partition_by=(), target_file_bytes=1 << 30)
    writer = writer_into(store, layout, buffer_bytes=100 << 20)
    for number in range(20):
        rows = [{"kind": "a", "_source": {"file": f"file-{number}", "row": at}} for at in range(5000)]
        writer.write(table_of(rows, as_dictionary=True))
    (file,) = writer.close()
    column = columns_of(store, file)["_source.file"]
    assert column.has_dictionary_page
    assert column.total_uncompressed_size < 1000
    assert (column.statistics.min, column.statistics.max) == ("file-0", "file-9")


def test_dictionaries_may_hold_duplicates_and_null() -> None:
    """For example, two files may have one etag."""
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
