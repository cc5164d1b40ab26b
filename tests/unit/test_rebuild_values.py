"""What a swap does with values that somebody has changed in one of the tables."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from blizzard.cli import main
from blizzard.table.table_columns import TableColumns
from spark_job.rebuild import values
from spark_job.rebuild.compare import Accepted
from spark_job.rebuild.values import compared_columns
from tests.unit.rebuild_lake import RebuildLake, told_by_process


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RebuildLake:
    monkeypatch.chdir(tmp_path)
    made = RebuildLake(tmp_path)
    for name in ("a", "b"):
        made.land(f"{name}.ndjson")
    assert made.run() == 0
    return made


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return told_by_process(monkeypatch)


def update(lake: RebuildLake, table: str, where: str, **values: str) -> None:
    done = DeltaTable(lake.uri(table)).update(predicate=where, updates=values)
    assert done["num_updated_rows"]


def test_values_that_somebody_has_changed_are_not_lost_unless_the_operator_says_so(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    update(lake, "lake", "id = 'a.ndjson 1'", amount="99")
    version = DeltaTable(lake.uri("lake")).version()
    assert lake.rebuild_table() == 1
    found = told[-1]["compared"]
    assert (found["changed"], found["changed_rows"], found["names"]) == (1, 1, {"changed": ["a.ndjson"]})
    assert DeltaTable(lake.uri("lake")).version() == version
    assert lake.rebuild_table(accepted=Accepted(gone=True, others=True, deleted=True)) == 1
    assert lake.rebuild_table(accepted=Accepted(changed=True)) == 0
    lake.check("new")


def forge(lake: RebuildLake, table: str) -> None:
    update(lake, table, "id = 'a.ndjson 1'", amount="99")


def merge(lake: RebuildLake, table: str) -> None:
    rows = pa.table({"id": ["b.ndjson 2"], "amount": [99]})
    merged = DeltaTable(lake.uri(table)).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    merged.when_matched_update({"amount": "s.amount"}).execute()


def delete_and_insert(lake: RebuildLake, table: str) -> None:
    """By two commits, neither of which adds and removes."""
    rows = DeltaTable(lake.uri(table)).to_pyarrow_table()
    changed = rows.set_column(rows.schema.get_field_index("amount"), "amount", pa.array([99] * 6, pa.int64()))
    DeltaTable(lake.uri(table)).delete()
    write_deltalake(lake.uri(table), changed, mode="append")


def then_compact(lake: RebuildLake, table: str) -> None:
    lake.land("c.ndjson")
    assert lake.run() == 0
    forge(lake, table)
    assert DeltaTable(lake.uri(table)).optimize.compact(min_commit_interval=0)["numFilesRemoved"]


def add_a_column(lake: RebuildLake, table: str) -> None:
    write_deltalake(lake.uri(table), pa.table({"note": pa.array([], pa.string())}), mode="append", schema_mode="merge")
    update(lake, table, "id = 'a.ndjson 1'", note="'important'")


def forget_the_log(lake: RebuildLake, table: str) -> None:
    """The commits that Delta has cleaned up after a checkpoint."""
    forge(lake, table)
    found = DeltaTable(lake.uri(table))
    found.create_checkpoint()
    for version in range(found.version()):
        (lake.folder / table / f"_delta_log/{version:020d}.json").unlink()


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (forge, {"a.ndjson": 1}),
        (merge, {"b.ndjson": 1}),
        (delete_and_insert, {"a.ndjson": 3, "b.ndjson": 3}),
        (then_compact, {"a.ndjson": 1}),
        (add_a_column, {"a.ndjson": 1}),
        (forget_the_log, {"a.ndjson": 1}),
    ],
)
def test_whatever_has_changed_a_value_is_found(
    change: Callable[[RebuildLake, str], None],
    changed: dict[str, int],
    lake: RebuildLake,
    told: list[dict[str, Any]],
) -> None:
    change(lake, "lake")
    assert lake.rebuild_table() == 1
    found = told[-1]["compared"]
    assert (found["names"], found["changed_rows"]) == ({"changed": [*changed]}, sum(changed.values()))


def test_values_that_were_changed_in_the_new_table_only_stop_the_swap(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    assert lake.rebuild_table(swap=False) == 0
    forge(lake, "new")
    assert lake.rebuild_table() == 1
    assert told[-1]["compared"]["names"] == {"changed": ["a.ndjson"]}


def test_values_that_were_changed_in_both_tables_are_no_obstacle(lake: RebuildLake, told: list[dict[str, Any]]) -> None:
    forge(lake, "lake")
    assert lake.rebuild_table() == 1
    forge(lake, "new")
    assert lake.rebuild_table() == 0
    assert told[-1]["swapped"]


def test_a_value_that_is_changed_while_the_operator_is_asked_stops_the_swap(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    def agreed() -> bool:
        forge(lake, "lake")
        return True

    assert lake.rebuild_table(agreed=agreed) == 1
    assert told[-2]["compared"]["names"] == {"changed": ["a.ndjson"]}
    assert told[-1] == {"taken_back": "orders:shop"}
    lake.land("c.ndjson")
    assert lake.run() == 0


def test_deleted_rows_and_changed_ones_of_one_file_are_told_apart(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    forge(lake, "lake")
    DeltaTable(lake.uri("lake")).delete("id = 'a.ndjson 2'")
    assert lake.rebuild_table() == 1
    found = told[-1]["compared"]
    assert (found["deleted_rows"], found["changed_rows"]) == (1, 1)
    assert lake.rebuild_table(accepted=Accepted(deleted=True)) == 1
    assert lake.rebuild_table(accepted=Accepted(deleted=True, changed=True)) == 0


@pytest.mark.parametrize("is_compacted", [False, True])
def test_without_a_change_no_value_is_read(
    lake: RebuildLake, monkeypatch: pytest.MonkeyPatch, is_compacted: bool
) -> None:
    def read(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(values, "DataRows", read)
    if is_compacted:
        lake.land("c.ndjson")
        assert lake.run() == 0
        assert DeltaTable(lake.uri("lake")).optimize.compact(min_commit_interval=0)["numFilesRemoved"]
    assert lake.rebuild_table() == 0
    lake.check("new")


def test_only_files_beside_a_changed_value_are_read(lake: RebuildLake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.land("c.ndjson")
    assert lake.run() == 0
    read, data_rows = list[str](), values.DataRows

    def noted(store: Any, file: Any, *more: Any) -> Any:
        read.append(file.path)
        return data_rows(store, file, *more)

    monkeypatch.setattr(values, "DataRows", noted)
    update(lake, "lake", "id = 'c.ndjson 1'", amount="99")
    assert lake.rebuild_table() == 1
    paths = [DeltaTable(lake.uri(table)).get_add_actions() for table in ("lake", "new")]
    old, new = (pa.table(each) for each in paths)
    of_c = [path for path, low in zip(old["path"].to_pylist(), old["min"].to_pylist(), strict=True) if "c" in low["id"]]
    assert (sorted(read), len(of_c)) == (sorted([*of_c, *new["path"].to_pylist()]), 1)


def test_rows_are_compared_in_parts(
    lake: RebuildLake, told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "PART_ROWS", 1)
    for number in range(20):
        lake.land(f"{number:02}.ndjson")
    assert lake.run() == 0
    update(lake, "lake", "amount = 1", amount="99")
    sizes, part = list[int](), values._part

    def noted(*of: Any) -> pa.Table:
        rows = part(*of)
        sizes.append(rows.num_rows)
        return rows

    monkeypatch.setattr(values, "_part", noted)
    assert lake.rebuild_table() == 1
    assert (told[-1]["compared"]["changed"], told[-1]["compared"]["changed_rows"]) == (22, 22)
    assert (sum(sizes), max(sizes) < 30, len(sizes)) == (132, True, 256)


def test_a_value_by_which_the_table_is_partitioned(lake: RebuildLake, told: list[dict[str, Any]]) -> None:
    dated = lake.text.replace("    engine", "    partition_by: [day]\n    engine")
    lake.file.write_text(
        f"{dated}        partition_columns: {{day: string}}\n".replace("table_uri: lake", "table_uri: dated")
    )
    for name in ("a", "b"):
        (lake.folder / f"incoming/{name}.ndjson").unlink()
    for day in ("1", "2"):
        lake.land(f"day={day}/d.ndjson")
    assert lake.run() == 0
    update(lake, "dated", "day = '1' AND amount = 2", day="'3'")
    assert lake.rebuild_table() == 1
    assert told[-1]["compared"]["names"] == {"changed": ["day=1/d.ndjson"]}


def test_a_column_of_another_type_is_named_and_not_compared(lake: RebuildLake, told: list[dict[str, Any]]) -> None:
    """Values of the others are."""
    forge(lake, "lake")
    lake.file.write_text(lake.text.replace("amount BIGINT", "amount DOUBLE"))
    assert lake.rebuild_table() == 0
    assert [each["compared"]["not_compared"] for each in told if "compared" in each][-1] == ["amount"]


def columns(filled: frozenset[str] = frozenset(), **kinds: pa.DataType) -> TableColumns:
    return TableColumns(pa.schema([*kinds.items()]), {}, filled)


@pytest.mark.parametrize(
    ("old", "new", "is_alike"),
    [
        (pa.int32(), pa.int64(), True),
        (pa.float32(), pa.float64(), False),
        (pa.int64(), pa.string(), False),
        (pa.decimal128(5, 2), pa.decimal128(6, 2), False),
        (pa.struct({"x": pa.int8()}), pa.struct({"x": pa.int64(), "y": pa.string()}), True),
        (pa.struct({"x": pa.int8()}), pa.struct({"x": pa.string()}), False),
        (pa.list_(pa.int8()), pa.list_(pa.int64()), True),
        (pa.list_(pa.int8()), pa.list_(pa.string()), False),
        (pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.int16()), True),
        (pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.string()), False),
    ],
)
def test_which_types_are_compared(old: pa.DataType, new: pa.DataType, is_alike: bool) -> None:
    expected = (["x"], []) if is_alike else ([], ["x"])
    assert compared_columns(columns(x=old), columns(x=new)) == expected


def test_columns_that_sparks_writer_fills_are_not_compared_and_such_of_one_table_are() -> None:
    old, new = columns(frozenset({"n"}), n=pa.int64(), note=pa.string()), columns(n=pa.int64())
    assert compared_columns(old, new) == (["note"], ["n"])


def test_the_command_says_whose_values_are_lost_and_what_to_do(
    lake: RebuildLake, capsys: pytest.CaptureFixture[str]
) -> None:
    forge(lake, "lake")
    swap = ["rebuild", "pipelines.yaml", "--to", "new", "--swap", "--yes"]
    assert main(swap) == 1
    shown = capsys.readouterr().out
    assert "1 rows of 1 files have other values in the new table: somebody has changed them in one of the two" in shown
    assert "or say --with-changed: a.ndjson\n" in shown
    assert main([*swap, "--with-changed", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = document["sources"][0]
    assert (found["changed"], found["changed_rows"], found["not_compared"]) == (1, 1, [])
    assert document["swapped"]
