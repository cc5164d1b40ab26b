"""The options of a source for data that is not as its schema says: what is accepted, and what readers get."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.config.publish import to_published
from blizzard.config.schema_rules import NO_RULES, SchemaRules, key_path
from blizzard.errors import ConfigError
from blizzard.state.unknown_fields import UnknownField, UnknownFields
from blizzard.storage.s3_connection import S3Settings
from spark_job.formats.source_keys import SourceKeys
from spark_job.table.schema import columns_of
from spark_job.tasks.batch_tasks import Task
from spark_job.tasks.destination import Destination
from spark_job.tasks.near_columns import near_columns
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from spark_job.write.data_file import TableLayout
from tests.unit.config_files import config, problems, source, source_lines

SCHEMA = "schema: 'id INT, city STRING, address STRUCT<zip: INT, city: STRING>'"


def test_without_options_a_source_has_no_rules_and_no_further_column() -> None:
    plain = source(SCHEMA)
    assert plain.schema_rules == NO_RULES
    assert plain.row_ddl == plain.record_ddl


@pytest.mark.parametrize(
    ("lines", "has_column"),
    [
        (["new_fields: rescue"], True),
        (["new_fields: add"], True),
        (["misfits: rescue"], True),
        (["misfits: widen"], True),
        (["new_fields: dead_letter"], False),
        (["new_fields: count", "misfits: dead_letter", "keys: ignore_case", "fields: {city: town}"], False),
    ],
)
def test_a_source_that_rescues_has_a_column_for_it(lines: list[str], has_column: bool) -> None:
    made = source(SCHEMA, *lines)
    assert made.row_ddl == f"{made.record_ddl}, _rescued STRING" * has_column + made.record_ddl * (not has_column)


@pytest.mark.parametrize("schema", [SCHEMA, "schema: infer"])
@pytest.mark.parametrize("new_fields", ["count", "rescue", "dead_letter", "add", None])
def test_a_limit_of_columns_that_nothing_adds_is_refused(schema: str, new_fields: str | None) -> None:
    given = [] if new_fields is None else [f"new_fields: {new_fields}"]
    text = source_lines("uri: s3://landing", schema, *given, "max_new_columns: 7")
    if new_fields == "add":
        assert config(text).pipelines["p"].sources["s"].max_new_columns == 7
        return
    [problem] = problems(text)
    effect = f"has no effect with `new_fields: {new_fields or 'count'}`, only with add"
    assert f"max_new_columns: {effect}; remove it, or set `new_fields: add`" in problem


def test_a_published_configuration_has_the_limit_of_all_sources() -> None:
    text = to_published(config(source_lines("uri: s3://landing", SCHEMA)))
    assert '"max_new_columns": 100' in text
    assert config(text).pipelines["p"].sources["s"].new_fields == "count"


def test_rules_travel_to_tasks_and_with_a_published_configuration(tmp_path: Path) -> None:
    options = ["new_fields: add", "misfits: widen", "keys: ignore_case", "fields: {id: ID, city: address.town}"]
    made = source(SCHEMA, *options)
    expected = SchemaRules("add", "widen", "ignore_case", {"id": ("ID",), "city": ("address", "town")})
    assert made.schema_rules == expected
    layout, provenance = TableLayout("", (), (), 32, 1 << 27), Provenance("p:s", 7, {})
    destination = Destination("table", layout, "deferred/", columns_of("id INT").json(), provenance)
    task = Task("landing", S3Settings(), ReadSettings("ndjson", rules=expected), destination)
    read = Task.from_json(task.to_json()).settings
    assert SourceKeys(columns_of("id INT"), read.rules.fields).schema.names == ["ID"]
    assert (read.rules.new_fields, read.rules.misfits, read.rules.keys) == ("add", "widen", "ignore_case")
    document = json.loads(task.to_json())
    del document["settings"]["rules"]  # of the version before
    assert Task.from_json(json.dumps(document)).settings.rules == NO_RULES
    text = source_lines("uri: s3://landing", SCHEMA, "new_fields: rescue", "fields: {id: '`a.b`.c'}")
    again = config(to_published(config(text))).pipelines["p"].sources["s"]
    assert again.schema_rules == SchemaRules("rescue", fields={"id": ("a.b", "c")})


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("userId", ("userId",)),
        ("address.city", ("address", "city")),
        ("`a.b`.c", ("a.b", "c")),
        ("a.`b``c`", ("a", "b`c")),
        ("größe x", ("größe x",)),
    ],
)
def test_a_path_of_keys(text: str, keys: tuple[str, ...]) -> None:
    assert key_path(text) == keys


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "`a", "a`b`", "`a`b", "``"])
def test_what_is_no_path_of_keys(text: str) -> None:
    with pytest.raises(ValueError, match="expected a key, or keys with dots between them"):
        key_path(text)
    [found] = problems(source_lines("uri: s3://landing", SCHEMA, f"fields: {{city: {json.dumps(text)}}}"))
    assert "fields.city" in found


def found_in(*lines: str) -> list[str]:
    """Without the file's name and the source's path."""
    found = problems(source_lines("uri: s3://landing", *lines))
    return [text.partition("sources.s.")[2] for text in found]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["new_fields: drop"], "new_fields: found 'drop', expected"),
        (["misfits: null"], "misfits: "),
        (["keys: lower"], "keys: found 'lower', expected"),
        (
            ["fields: {citi: town}"],
            "fields.citi: found 'citi', which `schema` does not have; did you mean `city`? expected one of id, ",
        ),
        (
            ["fields: {city: address.zip}"],
            "fields.city: column city reads the key 'address.zip' as string, and column address reads it as int; ",
        ),
        (
            ["fields: {city: id.name}"],
            "fields.city: column city is inside the key 'id', which column id reads as int; leave one",
        ),
        (
            ["fields: {id: city}"],
            "fields: column city reads the key 'city' as string, and column id reads it as int; give",
        ),
        (
            ["keys: ignore_case", "fields: {city: Id}"],
            "fields.city: column city and column id have keys that differ in case only, 'Id' and 'id'; ",
        ),
        (["format: csv", "fields: {city: address.city}"], "schema: column `address` is nested"),
    ],
)
def test_options_that_contradict_each_other(lines: list[str], expected: str) -> None:
    [found] = found_in(SCHEMA, *lines)
    assert found.startswith(expected)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["format: csv", "fields: {city: address.city}"],
            "fields.city: found 'address.city', but a field of CSV has no fields of its own; a name with dots is",
        ),
        (
            ["format: csv", "csv: {header: false}", "fields: {city: town}"],
            "fields.city: has no effect with `header: false`, where columns are found by position; give their",
        ),
        (
            [
                "format: mixed",
                "mixed: [{pattern: 'a', format: csv}, {pattern: b, format: json}]",
                "fields: {city: a.b}",
            ],
            "fields.city: found 'a.b', but a field of CSV",
        ),
    ],
)
def test_keys_that_csv_cannot_have(lines: list[str], expected: str) -> None:
    [found] = found_in("schema: id INT, city STRING", *lines)
    assert found.startswith(expected)


@pytest.mark.parametrize(
    "lines",
    [
        ["fields: {city: id2, id: id2}", "schema: id INT, city INT"],
        ["fields: {city: address.city}", SCHEMA],
        ["fields: {city: address.town}", SCHEMA],
        ["fields: {city: '`address.city`'}", "format: csv", "schema: id INT, city STRING"],
        ["fields: {id: ID, city: Id}", "schema: id INT, city INT"],
        ["format: mixed", "mixed: [{pattern: '**', format: parquet}]", "new_fields: rescue", SCHEMA],
        ["schema: '_rescued INT, id INT'"],
    ],
)
def test_options_that_are_possible(lines: list[str]) -> None:
    made = source(*lines)
    SourceKeys(columns_of(made.record_ddl), made.schema_rules.fields)


@pytest.mark.parametrize("option", ["new_fields: rescue", "misfits: rescue", "keys: ignore_case", "fields: {value: x}"])
@pytest.mark.parametrize("name", ["text", "binary"])
def test_formats_with_a_schema_of_their_own_have_no_rules(name: str, option: str) -> None:
    [found] = found_in(f"format: {name}", option)
    assert found == f"{option.partition(':')[0]}: is not possible with `format: {name}`; remove it"


@pytest.mark.parametrize("schema", ["id INT, _rescued STRING", "id INT, _Rescued INT"])
def test_the_column_for_what_is_rescued_is_not_in_the_schema(schema: str) -> None:
    [found] = found_in(f"schema: {schema}", "misfits: rescue")
    assert found.startswith("schema: column `_")
    assert found.endswith("keep what no other column takes; rename it")


def test_sources_of_one_table_agree_about_the_column_for_what_is_rescued() -> None:
    text = source_lines("uri: s3://landing", "schema: id INT", "new_fields: rescue")
    other = "      other: {uri: s3://other, schema: '_rescued INT'}\n"
    [found] = problems(text + other)
    assert "column `_rescued` is int here and string in source p:s" in found


TYPES = ["INT", "STRING", "STRUCT<a: INT, b: STRUCT<a: INT>>", "STRUCT<b: STRING>"]
PATHS = ["a", "b", "b.a", "b.b", "b.b.a", "c", "c.a"]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(TYPES), min_size=1, max_size=4),
    st.dictionaries(st.sampled_from(["v0", "v1", "v2", "v3"]), st.sampled_from(PATHS)),
)
def test_keys_that_a_configuration_accepts_can_be_read(types: list[str], paths: dict[str, str]) -> None:
    columns = [f"v{at} {kind}" for at, kind in enumerate(types)]
    fields = {name: path for name, path in paths.items() if int(name[1]) < len(types)}
    ddl, text = ", ".join(columns), json.dumps(fields)
    try:
        source(f"schema: '{ddl}'", f"fields: {text}")
    except ConfigError:
        return
    SourceKeys(columns_of(ddl), {name: key_path(path) for name, path in fields.items()})


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ID", "id"),
        ("address.ZIP", "address.zip"),
        ("items[].SKU", "items[].sku"),
        ("USERID", "user"),
        ("user", None),
        ("zip", None),
        ("other", None),
        ("`X.Y`", "`x.y`"),
        ("x.Y", "x.y"),
        ("`K.Y`.A", "key.a"),
        ("k.y.A", None),
    ],
)
def test_the_column_that_may_be_meant(name: str, near: str | None) -> None:
    columns = columns_of(
        "id INT, user INT, address STRUCT<zip: INT>, items ARRAY<STRUCT<sku: STRING>>, "
        "x STRUCT<y: INT>, `x.y` INT, key STRUCT<a: INT>, _rescued STRING"
    )
    rules = SchemaRules("rescue", fields={"user": ("userId",), "key": ("k.y",)})
    found = UnknownFields((UnknownField(name, 1, "f"),)).with_near(near_columns(columns, rules))
    assert [field.near for field in found.fields] == [near]


def test_the_sentence_about_a_near_miss_says_what_to_set() -> None:
    near = UnknownField("ID", 2, "f", 0, near="id")
    assert str(near) == (
        "ID (records: 2, first in f): did you mean the column id? set keys: ignore_case, or fields: {id: ID}"
    )
    nested = UnknownField("address.ZIP", 2, "f", 0, near="address.zip")
    assert str(nested).endswith("did you mean the column address.zip? set keys: ignore_case")
    dotted = UnknownField("`X.Y`", 2, "f", 0, near="`x.y`")
    assert str(dotted).endswith('set keys: ignore_case, or fields: {"x.y": "`X.Y`"}')
    inside = UnknownField("`x.y`.Z", 2, "f", 0, near="`x.y`.z")
    assert str(inside).endswith("did you mean the column `x.y`.z? set keys: ignore_case")
    may_be_added = UnknownField("userid", 2, "f", 0, near="userId", kind="BIGINT")
    assert str(may_be_added).endswith("or fields: {userId: userid}, with userId in schema")
