"""`blizzard validate --against-table` says beforehand what the next run makes of a configuration, or refuses."""

import json
import shutil

import pytest

from blizzard.cli import main
from blizzard.errors import PermanentError
from spark_job.engines.needs_spark import NeedsSpark
from tests.spark.engine_lake import EngineLake
from tests.unit.table_lake import lake, set_properties, told
from tests.unit.test_configuration_changes import NESTED, NESTED_MORE, begin

__all__ = ["lake"]

ONLY_WHEN_MADE = "that happens only when a table is made, or by ALTER TABLE … CLUSTER BY"


def test_validate_says_what_the_next_run_changes(lake: EngineLake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.settings = {"schema": "id STRING, n INT, old STRING"}
    assert told(lake, capsys)[1]["changes"] == ["makes the table"]
    lake.put("1.ndjson", {"id": "a", "n": 1})
    lake.run()
    code, same = told(lake, capsys)
    assert (code, same["version"], same["changes"], same["notes"], same["refused"]) == (0, 0, [], [], [])
    lake.settings = {
        "schema": "id STRING, n BIGINT, x DOUBLE",
        "derive": {"low": "lower(id)", "twice": "n * 2"},
    }
    lake.table_settings = {
        "constraints": {"positive": "n > 0"},
        "cluster_by": ["id"],
        "table_properties": {"owner": "me"},
    }
    code, table = told(lake, capsys)
    assert code == 0
    assert table["changes"] == [
        "adds column x double; rows that are there have null",
        "adds column low string; rows that are there have null",
        "adds column twice, of the type that Spark finds; rows that are there have null",
        "widens column n from int to bigint, by Spark; the table then needs Spark for every commit",
        "adds constraint positive (n > 0), by Spark, if every row of the table satisfies it",
    ]
    spark, *notes = table["notes"]
    assert spark.startswith("Spark is needed for widening column n from int to bigint in table")
    assert notes == [
        "column old stays, with null in new rows: no source of the pipeline has it",
        "Spark evaluates column twice: n * 2",
        "table_properties: the table has no owner, not owner = me: it is set only when a table is made",
        f"cluster_by: the table is not clustered: {ONLY_WHEN_MADE}",
    ]
    assert lake.versions() == [0]


def test_validate_says_which_fields_are_added(lake: EngineLake, capsys: pytest.CaptureFixture[str]) -> None:
    begin(lake, f"id STRING, {NESTED}")
    lake.settings = {"schema": f"id STRING, {NESTED_MORE}"}
    code, table = told(lake, capsys)
    assert (code, table["refused"]) == (0, [])
    assert table["notes"][0].startswith("NOT NULL of s.t.y.z is not in the table")
    assert table["changes"] == [
        "adds field s.t.y struct<z:date>; rows that are there have null",
        "adds field s.b string; rows that are there have null",
        "adds field l.element.b int; rows that are there have null",
        "adds field m.value.b int; rows that are there have null",
    ]


def test_validate_says_what_the_next_run_refuses(lake: EngineLake, capsys: pytest.CaptureFixture[str]) -> None:
    begin(lake)
    set_properties(lake, delta__setTransactionRetentionDuration="interval 1 day")
    lake.settings, lake.table_settings = {"schema": "id STRING, n DATE"}, {"partition_by": ["id"]}
    code, table = told(lake, capsys)
    assert code == 1
    assert [line.partition(":")[0] for line in table["refused"]][:2] == ["column n", "partition_by"]
    assert "column of another name" in table["notes"][0]
    assert "`blizzard rebuild FILE --to URI` makes it from all files" in table["notes"][0]
    assert "setTransactionRetentionDuration" in table["refused"][2]


def test_validate_names_checks_and_a_renamed_source(lake: EngineLake, capsys: pytest.CaptureFixture[str]) -> None:
    begin(lake)
    set_properties(lake, {"minReaderVersion": 1, "minWriterVersion": 3}, delta__constraints__odd="n % 2 = 1")
    document = lake.document({"renamed": lake.settings})
    (lake.folder / "pipelines.yaml").write_text(json.dumps(document))
    assert main(["validate", str(lake.folder / "pipelines.yaml"), "--against-table"]) == 0
    text = capsys.readouterr().out
    assert "checks constraint odd (n % 2 = 1): by Spark" in text
    assert "source events:landing wrote to the table and is not in the configuration" in text
    assert "it begins with all that it has" in text


@pytest.mark.parametrize("renamed", ["source", "pipeline"])
def test_validate_refuses_what_the_run_refuses_of_a_new_name(
    lake: EngineLake, capsys: pytest.CaptureFixture[str], renamed: str
) -> None:
    begin(lake)
    name = "landing" if renamed == "pipeline" else "other"
    document = lake.document({name: {**lake.settings, "uri": str(lake.landing())}})
    if renamed == "pipeline":
        document["pipelines"] = {"new": document["pipelines"]["events"]}
    (lake.folder / "pipelines.yaml").write_text(json.dumps(document))
    assert main(["validate", str(lake.folder / "pipelines.yaml"), "--against-table", "--json"]) == 1
    [table] = json.loads(capsys.readouterr().out)["tables"]
    [refused] = table["refused"]
    assert "1.ndjson came from source events:landing. Ingesting them again would double their rows" in refused
    assert not any("it begins with" in note for note in table["notes"])
    (lake.landing() / "1.ndjson").unlink()
    assert main(["validate", str(lake.folder / "pipelines.yaml"), "--against-table"]) == 0
    assert "it begins with all that it has" in capsys.readouterr().out


# -- what only Spark does


def ends_for_spark(lake: EngineLake, match: str) -> None:
    lake.put("next.ndjson", {"id": "z"})
    with pytest.raises(NeedsSpark, match=match):
        lake.run()
    assert lake.versions() in ([], [0])


MADE_BY_SPARK = {
    "clustering": ({"cluster_by": ["id"]}, {}, "clustered by columns"),
    "a property": ({"table_properties": {"delta.enableDeletionVectors": "true"}}, {}, "with the property delta.enable"),
    "mapping": ({}, {"schema": "id STRING, `a b` INT"}, "with the property delta.columnMapping.mode"),
    "derive": ({}, {"schema": "id STRING, n INT", "derive": {"twice": "n * 2"}}, "evaluating column twice"),
}


@pytest.mark.parametrize("case", MADE_BY_SPARK)
def test_of_a_table_that_only_spark_can_make_that_is_said(
    lake: EngineLake, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    lake.table_settings, settings, why = MADE_BY_SPARK[case]
    lake.settings = {"schema": "id STRING", **settings}
    code, table = told(lake, capsys)
    assert (code, table["changes"][0], table["refused"]) == (0, "makes the table", [])
    assert any(note.startswith("Spark is needed for") and why in note for note in table["notes"])
    mapped = "the table gets column mapping (delta.columnMapping.mode = name), for column a b"
    assert any(change.startswith(mapped) for change in table["changes"]) == (case == "mapping")
    lake.table_settings = {**lake.table_settings, "engine": "local"}
    code, table = told(lake, capsys)
    [refused] = table["refused"]
    assert code == 1
    assert why in refused
    ends_for_spark(lake, why)
    lake.table_settings = {**lake.table_settings, "engine": "spark"}
    code, table = told(lake, capsys)
    assert (code, table["refused"]) == (0, [])
    assert not any("Spark is needed" in note for note in table["notes"])


def test_a_new_table_whose_times_have_no_zone_gets_a_feature(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.settings = {"schema": "id STRING, t TIMESTAMP_NTZ"}
    code, table = told(lake, capsys)
    feature = "the table gets the table feature timestampNtz, for column t; programs that read it have to know that"
    assert (code, table["changes"], table["notes"]) == (0, ["makes the table", feature], [])
    lake.put("1.ndjson", {"id": "a", "t": "2026-11-21T10:00:00"})
    lake.run()
    assert told(lake, capsys)[1]["changes"] == []
    lake.settings = {"schema": "id STRING, t TIMESTAMP_NTZ, u TIMESTAMP_NTZ"}
    assert told(lake, capsys)[1]["changes"] == ["adds column u timestamp_ntz; rows that are there have null"]


@pytest.mark.parametrize("column", ["`a b` INT", "s STRUCT<`a=b`: INT>"])
def test_a_column_for_which_a_table_gets_column_mapping_is_named(
    lake: EngineLake, capsys: pytest.CaptureFixture[str], column: str
) -> None:
    begin(lake)
    lake.settings = {"schema": f"id STRING, n INT, {column}"}
    name = "a b" if "a b" in column else "s"
    code, table = told(lake, capsys)
    assert code == 0
    what = f"the table gets column mapping (delta.columnMapping.mode = name), for column {name}"
    assert f"{what}; programs that read it have to know that" in table["changes"]
    twice = "rows are written twice, the second time by Spark: column mapping (delta.columnMapping.mode)"
    assert twice in table["notes"]
    lake.table_settings = {"engine": "local"}
    code, table = told(lake, capsys)
    assert code == 1
    assert all("Spark is needed for" in refused for refused in table["refused"])
    ends_for_spark(lake, "column mapping")


@pytest.mark.parametrize("column", ["t TIMESTAMP_NTZ", "t ARRAY<TIMESTAMP_NTZ>"])
def test_a_column_for_which_a_table_gets_a_feature_is_named_and_needs_no_spark(
    lake: EngineLake, capsys: pytest.CaptureFixture[str], column: str
) -> None:
    begin(lake)
    lake.settings, lake.table_settings = {"schema": f"id STRING, n INT, {column}"}, {"engine": "local"}
    code, table = told(lake, capsys)
    feature = "the table gets the table feature timestampNtz, for column t; programs that read it have to know that"
    assert (code, table["refused"], table["notes"]) == (0, [], [])
    assert feature in table["changes"]
    lake.put("2.ndjson", {"id": "b"})
    lake.run()
    assert (told(lake, capsys)[1]["changes"], lake.ids()) == ([], ["a", "b"])


def test_what_a_table_leaves_to_spark_is_refused_by_the_local_engine(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(lake)
    set_properties(lake, {"minReaderVersion": 1, "minWriterVersion": 3}, delta__constraints__odd="n % 2 = 1")
    set_properties(lake, delta__autoOptimize__optimizeWrite="true")
    assert told(lake, capsys)[0] == 0
    lake.table_settings = {"engine": "local"}
    code, table = told(lake, capsys)
    assert code == 1
    assert [refused.partition(". ")[0].split(" table ")[0] for refused in table["refused"]] == [
        "Spark is needed for writing to",
        "Spark is needed for evaluating constraint odd (n % 2 = 1)",
    ]
    lake.put("2.ndjson", {"id": "b", "n": 2})
    with pytest.raises(NeedsSpark):
        lake.run()


# -- checks of columns that are taken out


@pytest.mark.parametrize(
    ("sql", "then", "letters"),
    [
        ("n > 0", "every record", ["b", "c"]),
        ("n > 0 OR n IS NULL", None, []),
        ("n > 0 OR id = 'b'", "a record for which it is not true then", ["c"]),
    ],
)
def test_a_constraint_of_a_column_that_is_taken_out_is_named(
    lake: EngineLake, capsys: pytest.CaptureFixture[str], sql: str, then: str | None, letters: list[str]
) -> None:
    begin(lake, constraints={"k": sql})
    assert not any("null in new rows" in note for note in told(lake, capsys)[1]["notes"])
    lake.settings, lake.table_settings = {"schema": "id STRING"}, {}
    code, table = told(lake, capsys)
    said = [f"constraint k ({sql}) names n, null in new rows: {then} becomes a dead letter"] if then else []
    assert code == 0
    assert [note for note in table["notes"] if "null in new rows:" in note and "constraint" in note] == said
    lake.put("2.ndjson", {"id": "b", "n": 1}, {"id": "c", "n": 1})
    lake.run()
    assert lake.ids() == sorted({"a", "b", "c"} - {*letters})
    assert len(lake.letters()) == len(letters)


def test_a_constraint_of_a_column_that_another_source_has_is_named_for_the_one_without(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(lake, constraints={"k": "n > 0"})
    document = lake.document({"landing": lake.settings, "other": {**lake.settings, "schema": "id STRING"}})
    (lake.folder / "pipelines.yaml").write_text(json.dumps(document))
    main(["validate", str(lake.folder / "pipelines.yaml"), "--against-table", "--json"])
    tables = {table["source"]: table["notes"] for table in json.loads(capsys.readouterr().out)["tables"]}
    said = "constraint k (n > 0) names n, null in new rows: every record becomes a dead letter"
    assert {source for source, notes in tables.items() if said in notes} == {"events:other"}


# -- a place that has moved


@pytest.mark.parametrize("moved", ["with its files", "without them", "with other content"])
def test_of_a_place_that_has_moved_what_becomes_of_its_files_is_said(
    lake: EngineLake, capsys: pytest.CaptureFixture[str], moved: str
) -> None:
    begin(lake)
    elsewhere = lake.folder / "moved"
    shutil.move(lake.landing(), elsewhere)
    (elsewhere / "2.ndjson").write_text('{"id": "b", "n": 2}\n')
    if moved == "without them":
        (elsewhere / "1.ndjson").unlink()
    if moved == "with other content":
        (elsewhere / "1.ndjson").unlink()
        (elsewhere / "1.ndjson").write_text('{"id": "changed", "n": 1}\n')
    lake.settings = {**lake.settings, "uri": str(elsewhere)}
    code, table = told(lake, capsys)
    of = "1 of 1 files of its newest rows is"
    gone = f"{of} not in file://{elsewhere}/ any more, such as 1.ndjson. If `uri` has moved: a file with path and etag "
    gone += "of one that the table has is not ingested again, and every other one is new"
    other = f"{of} in file://{elsewhere}/ with another etag, such as 1.ndjson: such a file counts as overwritten "
    said = {"with its files": [], "without them": [gone], "with other content": [f"{other}(on_overwrite: ignore)"]}
    assert (code, table["changes"], table["refused"], table["notes"]) == (0, [], [], said[moved])
    lake.run(late=True)
    assert lake.ids() == ["a", "b"]


@pytest.mark.parametrize("policy", ["replace", "ignore"])
def test_of_a_file_that_was_overwritten_it_says_what_the_run_needs(
    lake: EngineLake, capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    begin(lake, engine="local")
    lake.settings = {**lake.settings, "on_overwrite": policy}
    assert told(lake, capsys)[1]["refused"] == []
    lake.put("1.ndjson", {"id": "other"}, {"id": "b"})
    code, table = told(lake, capsys)
    assert code == len(table["refused"]) == int(policy == "replace")
    lake.table_settings = {"engine": "auto"}
    code, table = told(lake, capsys)
    assert (code, table["refused"]) == (0, [])
    needed = "Spark is needed for replacing the rows of overwritten files in table"
    assert any(note.startswith(needed) for note in table["notes"]) == (policy == "replace")
    if policy == "replace":
        lake.announce("1.ndjson")
        with pytest.raises(NeedsSpark, match="replacing the rows of overwritten files"):
            lake.run(late=True)
        assert lake.logged("rows_written_twice") == []


def test_in_a_table_that_allows_only_appends_no_rows_are_replaced(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    """With Spark, too: Delta refuses the commit, however often it is tried."""
    begin(lake, table_properties={"delta.appendOnly": "true"})
    lake.settings = {**lake.settings, "on_overwrite": "replace"}
    refusal = "has delta.appendOnly = true, so nothing can take the rows of an overwritten file out"
    code, table = told(lake, capsys)
    assert (code, table["refused"]) == (0, [])
    assert [note.partition(": table")[0] for note in table["notes"] if refusal in note] == [
        "a run that finds an overwritten file is refused"
    ]
    lake.put("1.ndjson", {"id": "other", "n": 1})
    code, table = told(lake, capsys)
    assert (code, [refusal in text for text in table["refused"]]) == (1, [True])
    with pytest.raises(PermanentError, match=f"{refusal}.*Nothing was read"):
        lake.run(late=True)
    assert (lake.ids(), lake.letters()) == (["a"], [])
    lake.settings["on_overwrite"] = "ignore"
    lake.run(late=True)
    assert told(lake, capsys)[0] == 0
