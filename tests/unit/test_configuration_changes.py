"""A configuration that changes between two runs: each change has an answer, and none loses or doubles a row."""

import re
import shutil
from datetime import date
from typing import Any

import pytest

from blizzard.errors import BlizzardError, PermanentError, RecoveryError
from spark_job.engines.needs_spark import NeedsSpark
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import run
from tests.unit.table_lake import change_metadata, lake, newest, reasons, told

__all__ = ["lake"]


def begin(lake: EngineLake, schema: str = "id STRING, n INT", **table: Any) -> None:
    lake.settings, lake.table_settings = {"schema": schema}, table
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()


def refused_before_reading(lake: EngineLake, match: str, error: type[BlizzardError] = PermanentError) -> None:
    lake.put("2.ndjson", {"id": "b", "n": 2})
    lake.events.clear()
    with pytest.raises(error, match=match):
        lake.run()
    assert lake.logged("batch_read") == []
    assert (lake.ids(), lake.letters()) == (["a"], [])


def continues(lake: EngineLake, *ids: str) -> None:
    """After the change is taken back."""
    lake.run()
    assert lake.ids() == [*ids]


def test_an_added_column_is_added_to_the_table(lake: EngineLake) -> None:
    begin(lake)
    lake.settings = {"schema": "id STRING, x DOUBLE COMMENT 'new', n INT"}
    lake.put("2.ndjson", {"id": "b", "n": 2, "x": 0.5})
    lake.run()
    assert [(row["id"], row["x"]) for row in lake.rows()] == [("a", None), ("b", 0.5)]
    assert lake.logged("columns_left_out") == []


def test_a_column_that_is_taken_out_stays_and_is_null_and_that_is_said_once(lake: EngineLake) -> None:
    begin(lake)
    lake.settings = {"schema": "id STRING"}
    lake.put("2.ndjson", {"id": "b", "n": 2})
    job = lake.job()
    run(job)
    lake.put("3.ndjson", {"id": "c", "n": 3})
    run(job)
    assert [(row["id"], row["n"]) for row in lake.rows()] == [("a", 1), ("b", None), ("c", None)]
    left_out = {"event": "columns_left_out", "source": "events:landing", "columns": ["n"]}
    assert lake.logged("columns_left_out") == [left_out]


def test_a_column_of_another_source_is_not_left_out(lake: EngineLake) -> None:
    begin(lake)
    lake.put("2.ndjson", {"id": "b"})
    for job in lake.jobs({"landing": {"schema": "id STRING"}, "other": {"schema": "id STRING, n INT"}}):
        run(job)
    assert lake.ids() == ["a", "b"]
    assert lake.logged("columns_left_out") == []


def test_a_wider_type_is_left_to_spark_before_anything_is_read(lake: EngineLake) -> None:
    begin(lake)
    lake.settings = {"schema": "id STRING, n BIGINT"}
    refused_before_reading(lake, "widening column n from int to bigint", NeedsSpark)


@pytest.mark.parametrize("with_constraint", [False, True])
def test_of_a_change_that_is_refused_in_part_nothing_is_made(lake: EngineLake, *, with_constraint: bool) -> None:
    begin(lake)
    if with_constraint:
        lake.settings, lake.table_settings = {"schema": "id STRING, n INT, x DOUBLE"}, {"constraints": {"k": "n > 0"}}
        refused_before_reading(lake, "adding constraint k", NeedsSpark)
    else:
        lake.settings = {"schema": "id STRING, n BIGINT, x DOUBLE"}
        refused_before_reading(lake, "widening column n from int to bigint", NeedsSpark)
    assert lake.versions() == [0]
    lake.settings, lake.table_settings = {"schema": "id STRING, n INT"}, {}
    continues(lake, "a", "b")


@pytest.mark.parametrize("change", ["added", "refused"])
def test_a_run_without_a_new_file_changes_nothing_and_is_not_refused(lake: EngineLake, change: str) -> None:
    """As `validate --against-table` says: with the first new file."""
    begin(lake)
    lake.settings = {"schema": "id STRING, n INT, x DOUBLE"}
    if change == "refused":
        lake.table_settings = {"partition_by": ["id"]}
    lake.run()
    assert lake.versions() == [0]
    lake.put("2.ndjson", {"id": "b", "n": 2, "x": 0.5})
    if change == "refused":
        with pytest.raises(PermanentError, match="partition_by"):
            lake.run()
        assert lake.versions() == [0]
    else:
        lake.run()
        assert [(row["id"], row["x"]) for row in lake.rows()] == [("a", None), ("b", 0.5)]


NESTED = "s STRUCT<a: INT, t: STRUCT<x: INT>>, l ARRAY<STRUCT<a: INT>>, m MAP<STRING, STRUCT<a: INT>>"
NESTED_MORE = (
    "s STRUCT<b: STRING COMMENT 'new', a: INT, t: STRUCT<y: STRUCT<z: DATE NOT NULL>, x: INT>>, "
    "l ARRAY<STRUCT<a: INT, b: INT>>, m MAP<STRING, STRUCT<b: INT, a: INT>>"
)
FEW = {"s": {"a": 1, "t": {"x": 2}}, "l": [{"a": 3}], "m": {"k": {"a": 4}}}
MORE = {
    "s": {"a": 5, "b": "five", "t": {"x": 6, "y": {"z": "2026-11-21"}}},
    "l": [{"a": 7, "b": 8}],
    "m": {"k": {"a": 9, "b": 10}},
}


def test_fields_that_are_added_at_any_depth_are_added_to_the_table(lake: EngineLake) -> None:
    begin(lake, f"id STRING, {NESTED}", table_properties={})
    lake.put("2.ndjson", {"id": "b", **FEW})
    lake.run()
    lake.settings = {"schema": f"id STRING, {NESTED_MORE}"}
    lake.put("3.ndjson", {"id": "c", **MORE})
    lake.run()
    lake.put("4.ndjson", {"id": "d", **FEW})
    lake.run()
    rows = {row["id"]: {name: row[name] for name in "slm"} for row in lake.rows()}
    nothing = {"s": None, "l": None, "m": None}
    few = {
        "s": {"a": 1, "t": {"x": 2, "y": None}, "b": None},
        "l": [{"a": 3, "b": None}],
        "m": [("k", {"a": 4, "b": None})],
    }
    assert rows == {
        "a": nothing,
        "b": few,
        "c": {
            "s": {"a": 5, "t": {"x": 6, "y": {"z": date(2026, 11, 21)}}, "b": "five"},
            "l": [{"a": 7, "b": 8}],
            "m": [("k", {"a": 9, "b": 10})],
        },
        "d": few,
    }
    assert '"nullable": false' not in newest(lake, "metaData")["schemaString"]
    assert '"comment": "new"' in newest(lake, "metaData")["schemaString"].replace('":"', '": "')
    assert sum("metaData" in action for version in lake.versions() for action in lake.actions(version)) == 2


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("s STRUCT<t: STRUCT<x: INT>>", "column s: expected struct<t:struct<x:int>>"),
        ("s STRUCT<a: INT, t: STRUCT<X: INT>>", "column s: expected"),
        ("s STRUCT<a: DATE, t: STRUCT<x: INT>, b: INT>", "column s: expected"),
        ("m MAP<STRING, STRUCT<b: INT>>", "column m: expected"),
    ],
)
def test_a_field_that_is_taken_out_or_of_another_type_is_refused(lake: EngineLake, schema: str, text: str) -> None:
    begin(lake, f"id STRING, {NESTED}")
    lake.settings = {"schema": f"id STRING, {schema}"}
    refused_before_reading(lake, text)


def test_the_order_of_fields_does_not_matter(lake: EngineLake) -> None:
    begin(lake, "id STRING, s STRUCT<a: INT, b: INT>")
    lake.settings = {"schema": "id STRING, s STRUCT<b: INT, a: INT>"}
    lake.put("2.ndjson", {"id": "b", "s": {"a": 1, "b": 2}})
    lake.run()
    assert [row["s"] for row in lake.rows()] == [None, {"a": 1, "b": 2}]


@pytest.mark.parametrize("kind", ["STRING", "SMALLINT", "DATE", "FLOAT", "DECIMAL(9,0)", "STRUCT<a: INT>"])
def test_any_other_type_is_refused_with_the_ways_out(lake: EngineLake, kind: str) -> None:
    begin(lake)
    lake.settings = {"schema": f"id STRING, n {kind}"}
    refused_before_reading(
        lake, "column n: expected .*, found int.* as a column of another name.*rebuild FILE --to URI"
    )
    lake.settings = {"schema": "id STRING, n INT"}
    continues(lake, "a", "b")


def test_a_decimal_to_which_delta_does_not_widen_is_refused_before_anything_is_read(lake: EngineLake) -> None:
    """Delta asks for as many digits as an INT has, also of a TINYINT."""
    begin(lake, "id STRING, n TINYINT")
    lake.settings = {"schema": "id STRING, n DECIMAL(5,0)"}
    refused_before_reading(lake, "column n: expected decimal.5,0., found tinyint")
    lake.settings = {"schema": "id STRING, n DECIMAL(10,0)"}
    refused_before_reading(lake, r"widening column n from tinyint to decimal\(10,0\)", NeedsSpark)


@pytest.mark.parametrize("by", ["constraint", "generated column"])
def test_a_wider_type_of_a_column_that_the_table_names_is_refused_with_the_ways_out(
    lake: EngineLake, capsys: pytest.CaptureFixture[str], by: str
) -> None:
    """Delta itself would refuse it, when the run has begun."""
    if by == "constraint":
        begin(lake, constraints={"positive": "n > 0"})
        label = "constraint positive (n > 0)"
    else:
        begin(lake, "id STRING, n INT, m STRING")
        change_metadata(
            lake,
            protocol={"minReaderVersion": 1, "minWriterVersion": 4},
            m={"metadata": {"delta.generationExpression": "cast(n AS STRING)"}},
        )
        label = "column m, which the table generates as cast(n AS STRING),"
    before, versions = lake.settings, lake.versions()
    lake.settings = {"schema": before["schema"].replace("n INT", "n BIGINT")}
    code, table = told(lake, capsys)
    sentence = f"column n: expected bigint, found int, and Delta does not widen it, since {label} names it"
    assert (code, table["refused"], table["changes"]) == (1, [sentence], [])
    refused_before_reading(lake, f"{re.escape(sentence)}.*as a column of another name.*rebuild FILE --to")
    assert lake.versions() == versions
    lake.settings = {"schema": "id STRING, n INT"}
    continues(lake, "a", "b")


def test_not_null_that_is_added_holds_for_new_records_alone(lake: EngineLake) -> None:
    begin(lake)
    lake.put("2.ndjson", {"id": "b"})
    lake.run()
    lake.settings = {"schema": "id STRING, n INT NOT NULL"}
    lake.put("3.ndjson", {"id": "c"}, {"id": "d", "n": 4})
    lake.run()
    assert lake.ids() == ["a", "b", "d"]
    assert reasons(lake) == {("3.ndjson", 0): "n: NOT NULL, but it is missing or null"}


def test_not_null_that_is_taken_away_lets_nulls_in(lake: EngineLake) -> None:
    begin(lake, "id STRING NOT NULL, n INT NOT NULL")
    lake.settings = {"schema": "id STRING NOT NULL, n INT"}
    lake.put("2.ndjson", {"id": "b"})
    lake.run()
    assert lake.ids() == ["a", "b"]


def test_another_partitioning_is_refused(lake: EngineLake) -> None:
    begin(lake)
    lake.table_settings = {"partition_by": ["id"]}
    refused_before_reading(lake, r"partition_by: expected \['id'\], found \[\]")
    lake.table_settings = {}
    continues(lake, "a", "b")


@pytest.mark.parametrize("files", ["the same", "others"])
def test_a_renamed_source_is_refused_while_it_has_the_same_files(lake: EngineLake, files: str) -> None:
    begin(lake)
    lake.put("2.ndjson", {"id": "b", "n": 2})
    if files == "others":
        (lake.landing() / "1.ndjson").unlink()
    shutil.copytree(lake.landing(), lake.landing("renamed"), copy_function=shutil.move)
    [job] = lake.jobs({"renamed": lake.settings})
    if files == "others":
        run(job)
        assert sorted(lake.ids()) == ["a", "b"]
        return
    with pytest.raises(RecoveryError, match="came from source events:landing"):
        run(job)
    assert lake.ids() == ["a"]


def test_a_place_that_has_moved_with_its_files_doubles_none(lake: EngineLake) -> None:
    begin(lake)
    shutil.copytree(lake.landing(), lake.folder / "moved")
    (lake.folder / "moved" / "2.ndjson").write_text('{"id": "b", "n": 2}\n')
    lake.settings = {**lake.settings, "uri": str(lake.folder / "moved")}
    lake.run(late=True)
    assert lake.ids() == ["a", "b"]
    continues(lake, "a", "b")


def move_by_copies(lake: EngineLake, n: int) -> None:
    """Both files are put again elsewhere, at another time, so that they have other etags; the first one with this `n`.
    A third one is new."""
    lake.put("2.ndjson", {"id": "b", "n": 2})
    lake.run()
    for name, record in (("1", {"id": "a", "n": n}), ("2", {"id": "b", "n": 2}), ("3", {"id": "c", "n": 3})):
        lake.put(f"{name}.ndjson", record, source="moved")
    lake.settings = {**lake.settings, "uri": str(lake.landing("moved"))}


@pytest.mark.parametrize("n", [1, 9], ids=["the same content", "other content"])
def test_copies_with_other_etags_are_ignored_and_counted(lake: EngineLake, n: int) -> None:
    begin(lake)
    move_by_copies(lake, n)
    assert lake.run(late=True).overwritten == 2
    assert [(row["id"], row["n"]) for row in lake.rows()] == [("a", 1), ("b", 2), ("c", 3)]
    assert lake.letters() == []
    versions = lake.versions()
    lake.run(late=True)
    assert (lake.versions(), lake.ids()) == (versions, ["a", "b", "c"])
    lake.settings = {**lake.settings, "on_overwrite": "dead_letter"}
    lake.run(late=True)
    assert len(lake.letters()) == 2


@pytest.mark.parametrize("n", [1, 9], ids=["the same content", "other content"])
def test_copies_with_other_etags_are_dead_letters_once_and_the_rows_stay(lake: EngineLake, n: int) -> None:
    begin(lake)
    lake.settings["on_overwrite"] = "dead_letter"
    move_by_copies(lake, n)
    for _ in range(2):
        lake.run(late=True)
        assert [(row["id"], row["n"]) for row in lake.rows()] == [("a", 1), ("b", 2), ("c", 3)]
        assert [(one["path"], one.get("row")) for one in lake.letters()] == [("1.ndjson", None), ("2.ndjson", None)]
    assert all("overwritten after it was ingested" in one["error"] for one in lake.letters())


def test_a_place_that_was_renamed_has_files_of_the_same_etags(lake: EngineLake) -> None:
    begin(lake)
    lake.settings["on_overwrite"] = "dead_letter"
    lake.landing().rename(lake.folder / "moved")
    lake.put("2.ndjson", {"id": "b", "n": 2}, source="moved")
    lake.settings = {**lake.settings, "uri": str(lake.landing("moved"))}
    for expected in (1, 0):
        totals = lake.run(late=True)
        assert (totals.files, totals.overwritten) == (expected, 0)
        assert (lake.ids(), lake.letters()) == (["a", "b"], [])


def test_copies_with_other_etags_need_spark_to_be_replaced(lake: EngineLake) -> None:
    begin(lake)
    lake.settings["on_overwrite"] = "replace"
    move_by_copies(lake, 9)
    with pytest.raises(NeedsSpark, match="replacing the rows of overwritten files"):
        lake.run(late=True)
    assert [(row["id"], row["n"]) for row in lake.rows()][:2] == [("a", 1), ("b", 2)]


def test_a_place_that_moves_back_doubles_none(lake: EngineLake) -> None:
    begin(lake)
    home = lake.settings
    move_by_copies(lake, 1)
    lake.run(late=True)
    lake.settings = home
    lake.put("4.ndjson", {"id": "d", "n": 4})
    lake.run(late=True)
    assert lake.ids() == ["a", "b", "c", "d"]
