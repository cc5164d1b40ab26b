"""The rows of a data file with all columns, as the table has them."""

from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blizzard.errors import DataFileDamaged, NotFound
from blizzard.storage.local import LocalStore
from blizzard.table.added_files import MAX_TIME, AddedFile
from blizzard.table.data_rows import DataRows
from blizzard.table.source_column import BATCH_ROWS

UNKNOWN = None, None
SCHEMA = pa.schema({"n": pa.int64(), "_source": pa.struct({"file": pa.string()}), "day": pa.date32()})


def data_rows(folder: Path, schema: pa.Schema = SCHEMA, deleted: Sequence[int] = (), **partition: Any) -> DataRows:
    size = (folder / "f").stat().st_size
    file = AddedFile("f", size, 0, None, None, UNKNOWN, UNKNOWN, UNKNOWN, MAX_TIME)
    return DataRows(LocalStore(folder), file, schema, partition, deleted)


def written(folder: Path, **columns: pa.Array) -> Path:
    pq.write_table(pa.table(columns), folder / "f", row_group_size=3)
    return folder


def rows_of(data: DataRows, paths: Sequence[str] | None = None) -> list[dict[str, Any]]:
    return [row for rows in data.batches(paths) for row in rows.to_pylist()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With three row groups."""
    sources = pa.array([{"file": name} for name in "aaabbbbbb"])
    return written(tmp_path, n=pa.array(range(9), pa.int8()), _source=sources)


def test_deleted_rows_are_left_out_wherever_they_are(folder: Path) -> None:
    kept = [row["n"] for row in rows_of(data_rows(folder, deleted=[0, 3, 8]))]
    assert kept == [1, 2, 4, 5, 6, 7]


def test_deleted_rows_are_left_out_of_each_batch_of_a_row_group(tmp_path: Path) -> None:
    count = 2 * BATCH_ROWS + 3
    pq.write_table(pa.table({"n": pa.array(range(count), pa.int64())}), tmp_path / "f", row_group_size=count)
    deleted = [0, BATCH_ROWS, count - 1]
    kept = [row["n"] for row in rows_of(data_rows(tmp_path, deleted=deleted))]
    assert kept == [number for number in range(count) if number not in deleted]


def test_row_groups_that_have_no_wanted_file_are_not_read(folder: Path) -> None:
    for paths, expected in ((["a"], [0, 1, 2]), (["b", "c"], [3, 4, 5, 6, 7]), (["c"], [])):
        assert [row["n"] for row in rows_of(data_rows(folder, deleted=[8]), paths)] == expected


def test_the_partitions_values_are_those_of_each_row(folder: Path) -> None:
    day = date(2026, 1, 2)
    assert {row["day"] for row in rows_of(data_rows(folder, day=day))} == {day}
    assert {row["day"] for row in rows_of(data_rows(folder, day=None))} == {None}


def test_values_have_the_types_of_the_table(tmp_path: Path) -> None:
    """Which may have been widened, and have got fields."""
    structs = pa.array([{"x": date(2026, 1, 2)}])
    views = {"v": pa.array(["a"], pa.string_view()), "w": pa.array([{"t": "a"}], pa.struct({"t": pa.string_view()}))}
    written(tmp_path, s=structs, d=pa.array([date(2026, 1, 2)]), **views)
    kinds = {"s": pa.struct({"x": pa.timestamp("us"), "y": pa.string()}), "d": pa.timestamp("us"), "v": pa.string()}
    (row,) = rows_of(data_rows(tmp_path, pa.schema({**kinds, "w": pa.struct({"t": pa.string()})})))
    when = datetime(2026, 1, 2)  # noqa: DTZ001 - of a column without a time zone
    assert row == {"s": {"x": when, "y": None}, "d": when, "v": "a", "w": {"t": "a"}}


def test_a_file_that_is_no_parquet_or_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"no Parquet, but some bytes")
    with pytest.raises(DataFileDamaged, match="the data file f cannot be read"):
        data_rows(tmp_path)
    (tmp_path / "f").unlink()
    with pytest.raises(NotFound):
        DataRows(
            LocalStore(tmp_path), AddedFile("f", 9, 0, None, None, UNKNOWN, UNKNOWN, UNKNOWN, MAX_TIME), SCHEMA, {}
        )
