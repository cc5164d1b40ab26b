"""`pipelines.yaml`: what it may say, and what its writer is told when it says something else."""

import re
import subprocess
import sys
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from blizzard.config.load import _STAND_INS, load_config, parse_config, read_config
from blizzard.config.model import Config, Source
from blizzard.errors import ConfigError
from blizzard.paths.partition import _READERS, PartitionType

ROOT = Path(__file__).parents[2]
FULL = """\
pipelines:
  events:
    table_uri: s3://lake/events
    partition_by: [date]
    sources:
      landing:
        uri: s3://landing/raw-events/
        pattern: "**/*.ndjson.gz"
        format: ndjson
        schema: "id STRING NOT NULL, timestamp BIGINT, value DOUBLE, payload STRING"
        partition_columns: {date: date}
        partition_filter: {prefix_template: "date=%Y-%m-%d", lookback: 7}
        checkpoint: {interval_files: 1000, interval_bytes: 1GiB, interval_secs: 60}
        settle_delay_secs: 60
        on_overwrite: ignore
"""


def config(text: str, folder: str | None = "/conf", **environ: str) -> Config:
    return parse_config(textwrap.dedent(text), environ, name="f.yaml", folder=folder)


def problems(text: str, folder: str | None = "/conf", **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        config(text, folder, **environ)
    return error.value.problems


def source_lines(*lines: str, table: str = "s3://lake/t", pipeline: str = "") -> str:
    """A file of one source with these lines, the first of which is line 6."""
    body = "".join(f"        {line}\n" for line in lines)
    return f"pipelines:\n  p:\n    table_uri: {table}\n{pipeline}    sources:\n      s:\n{body}"


def source(*lines: str, **environ: str) -> Source:
    """A source with these lines, on whatever place and with whatever schema when they name none."""
    uri = () if any(line.startswith("uri:") for line in lines) else ("uri: s3://landing/a",)
    schema = () if any(line.startswith(("schema:", "format: text")) for line in lines) else ("schema: id STRING",)
    return next(config(source_lines(*lines, *uri, *schema), **environ).sources())[1]


# --- What is read ---


def test_the_full_form_is_read() -> None:
    pipeline, landing = next(config(FULL).sources())
    assert (pipeline.name, pipeline.table_uri, pipeline.partition_by) == ("events", "s3://lake/events", ["date"])
    assert (landing.uri, landing.pattern, landing.format) == ("s3://landing/raw-events/", "**/*.ndjson.gz", "ndjson")
    assert landing.schema_ddl == "id STRING NOT NULL, timestamp BIGINT, value DOUBLE, payload STRING"
    assert landing.partition_columns == {"date": "date"}
    assert landing.partition_filter is not None
    assert (landing.partition_filter.prefix_template, landing.partition_filter.lookback) == ("date=%Y-%m-%d", 7)
    assert (landing.checkpoint.interval_files, landing.checkpoint.interval_bytes) == (1000, 1 << 30)


def test_a_source_knows_its_names() -> None:
    _, landing = next(config(FULL).sources())
    assert (landing.name, landing.pipeline, landing.id) == ("landing", "events", "events:landing")
    assert landing.state_prefix == "_blizzard/events_landing"


def test_what_is_left_out_has_its_default() -> None:
    plain = source()
    assert (plain.pattern, plain.format, plain.compression, plain.on_overwrite) == ("**", "ndjson", "auto", "ignore")
    assert (plain.partition_columns, plain.partition_filter, plain.settle_delay_secs) == ({}, None, 60)
    assert plain.checkpoint.model_dump() == {"interval_files": 1000, "interval_bytes": 1 << 30, "interval_secs": 60}
    assert plain.sweep.model_dump() == {"interval_secs": 60, "late_interval_secs": 3600, "late_overlap_secs": 86400}
    assert plain.limits.model_dump() == {
        "max_record_bytes": 16 << 20,
        "max_file_bytes": 64 << 30,
        "max_tracked_files": 1000,
        "task_memory_bytes": 256 << 20,
    }
    assert plain.retries.model_dump() == {"max_attempts": 8, "max_backoff_secs": 20}


def test_text_has_a_schema_of_its_own() -> None:
    assert source("format: text").row_ddl == "value STRING"
    assert source("schema: id INT").row_ddl == "id INT"


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("1048576", 1 << 20),
        ('"1048576"', 1 << 20),
        ("1GiB", 1 << 30),
        ("1 gib", 1 << 30),
        ("512 MB", 512_000_000),
        ("1.5KiB", 1536),
        ("2kb", 2000),
        ("3TiB", 3 << 40),
        ("7B", 7),
        ('"${SIZE:-16MiB}"', 16 << 20),
    ],
)
def test_sizes_have_units(written: str, size: int) -> None:
    assert source(f"limits: {{max_record_bytes: {written}}}").limits.max_record_bytes == size


@pytest.mark.parametrize(
    ("written", "uri"),
    [
        ("s3://landing/raw/", "s3://landing/raw/"),
        ("s3://landing/raw", "s3://landing/raw/"),
        ("S3A://landing/raw", "s3://landing/raw/"),
        ("s3://landing", "s3://landing/"),
        ("s3://landing/a b+%41/é", "s3://landing/a b+%41/é/"),
        ("s3://landing/a//b", "s3://landing/a//b/"),
        ("file:///data/raw", "file:///data/raw/"),
        ("file:/data/raw", "file:///data/raw/"),
        ("/data/raw/", "file:///data/raw/"),
        ("/data/../x/./raw", "file:///x/raw/"),
        ("raw", "file:///conf/raw/"),
        ("./raw/", "file:///conf/raw/"),
        ("../raw", "file:///raw/"),
        ("s3/raw", "file:///conf/s3/raw/"),
        ("a%20b", "file:///conf/a%20b/"),
    ],
)
def test_a_place_has_one_spelling(written: str, uri: str) -> None:
    assert source(f'uri: "{written}"').uri == uri


@pytest.mark.parametrize(
    ("written", "uri"),
    [
        ("s3a://lake/events/", "s3://lake/events"),
        ("s3://lake/events//", "s3://lake/events"),
        ("table", "file:///conf/table"),
        ("../build/table/", "file:///build/table"),
        ("file:///t", "file:///t"),
    ],
)
def test_a_table_has_one_spelling(written: str, uri: str) -> None:
    text = source_lines("uri: s3://landing", "schema: id INT", table=written)
    assert config(text).pipelines["p"].table_uri == uri


def test_relative_places_start_from_the_files_folder_wherever_the_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "pipelines.yaml"
    file.write_text(source_lines("uri: in", "schema: id INT", table="out"))
    monkeypatch.chdir(tmp_path)
    absolute = load_config(file, {})
    assert next(absolute.sources())[1].uri == f"file://{tmp_path}/conf/in/"
    assert load_config("conf/pipelines.yaml", {}) == absolute


def test_without_a_folder_relative_places_are_refused() -> None:
    found = problems(source_lines("uri: in", "schema: id INT", table="out"), folder=None)
    expected = "a path relative to nothing; expected s3://bucket/prefix or file:///folder"
    assert found == [
        f"f.yaml:3: pipelines.p.table_uri: found 'out', {expected}",
        f"f.yaml:6: pipelines.p.sources.s.uri: found 'in', {expected}",
    ]


def test_variables_are_filled_in_after_parsing() -> None:
    evil = "a\n        format: text"
    assert source("uri: s3://${B:-landing}/${P}", P=evil.replace("\n", " ")).format == "ndjson"
    assert source('pattern: "${P}"', P='x", format: text').pattern == 'x", format: text'


def test_numbers_may_come_from_variables() -> None:
    assert source("checkpoint: {interval_files: $N}".replace("$N", "'${N}'"), N="7").checkpoint.interval_files == 7


def test_anchors_and_aliases_may_be_used() -> None:
    text = FULL.replace("checkpoint: {", "checkpoint: &batch {") + (
        "      other:\n        uri: s3://other\n        schema: 'id STRING, date DATE'\n        checkpoint: *batch\n"
    )
    assert config(text).pipelines["events"].sources["other"].checkpoint.interval_bytes == 1 << 30


def test_words_of_old_yaml_are_texts() -> None:
    text = (
        source_lines("uri: s3://landing", "schema: id INT")
        .replace("  p:", "  no:")
        .replace("      s:", "      2024-01-01:")
    )
    assert [source.id for _, source in config(text).sources()] == ["no:2024-01-01"]


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        source().pattern = "x"


# --- What is refused, one thing at a time ---


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("patern: x", "s.patern: unknown key; did you mean `pattern`? expected one of uri, pattern,"),
        ("interval_files: 5", "s.interval_files: unknown key here; it belongs into `checkpoint`: move it there"),
        ("checkpoint: {interval_fils: 5}", "s.checkpoint.interval_fils: unknown key; did you mean `interval_files`?"),
        ("name: x", "s.name: unknown key"),
        ("schema_ddl: x", "s.schema_ddl: unknown key"),
        ("format: json", "s.format: found 'json', expected one of 'ndjson' or 'text'; change it"),
        ("compression: brotli", "s.compression: found 'brotli', expected one of 'auto', 'gzip', 'zstd' or 'none'"),
        ("on_overwrite: 5", "s.on_overwrite: found 5, expected one of 'ignore'"),
        ("pattern: 5", "s.pattern: found 5, expected text (put it in quotes); change it"),
        ("pattern:", "s.pattern: found nothing, expected text"),
        ("pattern: /x", "s.pattern: expected a pattern relative to the source's uri"),
        ("pattern: ../x", "s.pattern: expected a pattern relative"),
        ("settle_delay_secs: -1", "s.settle_delay_secs: found -1, expected 0 or more; change it"),
        ("settle_delay_secs: soon", "s.settle_delay_secs: found 'soon', expected a number; change it"),
        ("settle_delay_secs: .inf", "s.settle_delay_secs: found inf, expected a finite number"),
        ("settle_delay_secs: .nan", "s.settle_delay_secs: found nan, expected"),
        ("settle_delay_secs: true", "s.settle_delay_secs: found true, expected a number"),
        ("sweep: {interval_secs: 0}", "s.sweep.interval_secs: found 0, expected more than 0; change it"),
        ("checkpoint: {interval_files: 0}", "s.checkpoint.interval_files: found 0, expected 1 or more"),
        ("checkpoint: {interval_files: 1.5}", "s.checkpoint.interval_files: found 1.5, expected a whole number"),
        ("checkpoint: {interval_files: true}", "s.checkpoint.interval_files: found true, expected a number"),
        ("checkpoint: 5", "s.checkpoint: found 5, expected a mapping of settings; change it"),
        ("limits: {max_file_bytes: 1G}", "max_file_bytes: found '1G', expected a size such as 1GiB"),
        ("limits: {max_file_bytes: 0.3B}", "max_file_bytes: found '0.3B', expected a size"),
        ("limits: {max_file_bytes: -1}", "max_file_bytes: found -1, expected 1 or more"),
        ("limits: {max_file_bytes: true}", "max_file_bytes: found true, expected a number"),
        ("partition_columns: [date]", "s.partition_columns: found a list, expected a mapping of names to values"),
        ("partition_columns: {d: double}", "partition_columns.d: found 'double', expected one of 'string', 'date',"),
        ("partition_columns: {_d: date}", "partition_columns._d: begins with `_`; VACUUM would take"),
        ("partition_columns: {ID: int}", "partition_columns.ID: is in `schema` too"),
        ("partition_columns: {d: int, D: int}", "partition_columns.D: is there twice"),
        ("partition_columns: {'a b': int}", "partition_columns.'a b': column `a b` has ' ' in its name"),
        ("partition_filter: {lookback: 1}", "prefix_template: is missing; add it: The leading folders"),
        ("partition_filter: {prefix_template: '%Y', lookback: 0}", "lookback: found 0, expected 1 or more"),
        ("partition_filter: {prefix_template: '%d.%Y', lookback: 1}", "prefix_template: such folders do not sort"),
        ("partition_filter: {prefix_template: '/%Y', lookback: 1}", "prefix_template: found '/%Y'; expected folders"),
    ],
)
def test_a_wrong_line_is_named_with_its_field(line: str, what: str) -> None:
    found = problems(source_lines("uri: s3://landing", "schema: id STRING", line))
    assert len(found) == 1
    assert found[0].startswith("f.yaml:8: pipelines.p.sources.s.")
    assert what in found[0]


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ("id STRNG", "Spark cannot use this schema: found 'STRNG' at character 4"),
        ("''", "Spark cannot use this schema: found the end"),
        ("a INT, A INT", "column `A` is there twice"),
        ("_Source INT", "column `_Source` is reserved: Blizzard writes there which file a row came from; rename it"),
        ("_blizzard_x INT", "column `_blizzard_x`: names that begin with _blizzard are reserved; rename it"),
        ("a STRUCT<>", "column `a` is a struct without columns"),
    ],
)
def test_a_schema_that_cannot_be_used_is_said(schema: str, what: str) -> None:
    (found,) = problems(source_lines("uri: s3://landing", f"schema: {schema}"))
    assert found.startswith("f.yaml:7: pipelines.p.sources.s.schema: ")
    assert what in found


def test_underscores_within_a_struct_are_free() -> None:
    assert source("schema: 'a STRUCT<_source: INT>, _id INT'").schema_ddl


def test_ndjson_needs_a_schema_and_text_has_its_own() -> None:
    (missing,) = problems(source_lines("uri: s3://landing"))
    assert missing.startswith("f.yaml:5: pipelines.p.sources.s.schema: is missing; add the columns")
    (extra,) = problems(source_lines("uri: s3://landing", "format: text", "schema: value STRING"))
    assert extra.startswith("f.yaml:8: pipelines.p.sources.s.schema: found a schema beside `format: text`")


@pytest.mark.parametrize(
    ("uri", "what"),
    [
        ("''", "expected s3://bucket/prefix, file:///folder, or a path"),
        ("' s3://landing'", "without blanks around it"),
        ('"s3://landing/a\\nb"', "control characters"),
        ("gs://landing/x", "found 'gs://landing/x'; expected s3://bucket/prefix"),
        ("s3:/landing/x", "expected s3://bucket/prefix"),
        ("s3:///x", "found '' as the bucket"),
        ("s3://Landing/x", "found 'Landing' as the bucket"),
        ("s3://key:secret@landing/x", "found more than a bucket's name"),
        ("https://key:secret@host/x", "found 'https://…@host/x'; expected"),
        ("s3://landing/../x", "write the folders that are meant"),
        ("file://data/x", "found 'file://data/x'; expected"),
        ("~/x", "write ${HOME}/x"),
        ("s3://landing/*.gz", "with a wildcard"),
        ("x" * 1025, "found 1025 characters"),
    ],
)
def test_a_place_that_cannot_be_is_said(uri: str, what: str) -> None:
    (found,) = problems(source_lines(f"uri: {uri}", "schema: id INT"))
    assert found.startswith("f.yaml:6: pipelines.p.sources.s.uri: ")
    assert what in found


def test_credentials_in_a_place_are_not_repeated() -> None:
    for uri in (
        "s3://key:secret@landing/x",
        "https://secret@host/x",
        "ftp://key:secret@host/*",
        "s3://secret@landing/*",
    ):
        assert "secret" not in "".join(problems(source_lines(f"uri: {uri}", "schema: id INT")))


@pytest.mark.parametrize("table", ["s3://lake", "s3://lake/", "/", "file:///", "s3://lake//x", "..", "s3://lake//"])
def test_a_table_needs_a_folder_of_its_own(table: str) -> None:
    (found,) = problems(source_lines("uri: s3://landing", "schema: id INT", table=table))
    assert found.startswith(f"f.yaml:3: pipelines.p.table_uri: found '{table}'")


@pytest.mark.parametrize("name", ["a b", "a.b", "_a", "-a", "a" * 64, "é", "a/b", "'a\\n'", "''"])
def test_a_name_is_of_letters_digits_and_lines(name: str) -> None:
    text = source_lines("uri: s3://landing", "schema: id INT")
    for found in (problems(text.replace("  p:", f"  {name}:")), problems(text.replace("      s:", f"      {name}:"))):
        assert any("expected a name of letters, digits, _ and -" in problem for problem in found)


# --- Partitions against columns ---


def partition_by(columns: str, *lines: str) -> list[str]:
    return problems(source_lines("uri: s3://landing", *lines, pipeline=f"    partition_by: {columns}\n"))


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        (
            "[dat]",
            "partition_by[0]: found 'dat', which source s does not have; did you mean `date`? expected one of",
        ),
        ("[date, Date]", "partition_by[1]: found 'Date' twice"),
        ("[ID]", "partition_by[0]: found 'ID', which source s does not have"),
        ("[_source]", "partition_by[0]: found '_source'; a partition column cannot begin with `_`"),
        ("[tags]", "partition_by[0]: found 'tags' of type array<string>"),
        ("date", "partition_by: found 'date', expected a list, such as [date]"),
        ("[5]", "partition_by[0]: found 5, expected text"),
    ],
)
def test_a_table_is_partitioned_by_columns_that_it_has(columns: str, what: str) -> None:
    (found,) = partition_by(columns, "schema: id INT, tags ARRAY<STRING>", "partition_columns: {date: date}")
    assert found.startswith("f.yaml:4: pipelines.p.")
    assert what in found


def test_every_source_has_the_tables_partition_columns() -> None:
    (found,) = problems(FULL + "      other: {uri: s3://other, schema: id STRING}\n")
    assert found.startswith(
        "f.yaml:4: pipelines.events.partition_by[0]: found 'date', which source other does not have"
    )


def test_partition_columns_may_come_from_the_schema() -> None:
    text = source_lines("uri: s3://landing", "schema: date DATE", pipeline="    partition_by: [date]\n")
    assert config(text).pipelines["p"].partition_by == ["date"]


# --- Sources and tables against each other ---


def places(*pipelines: tuple[str, list[str]]) -> str:
    """Pipelines a, b, … with a table and sources s0, s1, …: each of them on a line of its own from line 3."""
    text = "pipelines:\n"
    for name, (table, uris) in zip("abcdef", pipelines, strict=False):
        text += f"  {name}:\n    table_uri: {table}\n    sources:\n"
        text += "".join(f"      s{i}: {{uri: '{uri}', schema: id INT}}\n" for i, uri in enumerate(uris))
    return text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            places(("s3://lake/t", ["s3://landing/x", "s3a://landing/x/"])),
            "f.yaml:6: pipelines.a.sources.s1.uri: found s3://landing/x/, which is the same place as pipelines.a",
        ),
        (
            places(("s3://lake/t", ["s3://landing/x/y/z"]), ("s3://lake/u", ["s3://landing/x"])),
            "f.yaml:5: pipelines.a.sources.s0.uri: found s3://landing/x/y/z/, which lies inside pipelines.b.sources.s0",
        ),
        (
            places(("s3://landing/x/t", ["s3://landing/x"])),
            "f.yaml:3: pipelines.a.table_uri: found s3://landing/x/t/, which lies inside pipelines.a.sources.s0",
        ),
        (
            places(("s3://landing/x", ["s3://landing/x"])),
            "f.yaml:3: pipelines.a.table_uri: found s3://landing/x/, which is the same place as pipelines.a.sources.s0",
        ),
        (
            places(("s3://lake/t", ["s3://lake/t/in"])),
            "f.yaml:5: pipelines.a.sources.s0.uri: found s3://lake/t/in/, which lies inside the table of pipelines.a",
        ),
        (
            places(("s3://lake/t", ["s3://landing/x"]), ("s3://lake/t/u", ["s3://landing/y"])),
            "f.yaml:7: pipelines.b.table_uri: found s3://lake/t/u/, which lies inside the table of pipelines.a",
        ),
        (
            places(("out", ["/conf"])),
            "f.yaml:3: pipelines.a.table_uri: found file:///conf/out/, which lies inside pipelines.a.sources.s0",
        ),
    ],
)
def test_places_do_not_overlap(text: str, what: str) -> None:
    (found,) = problems(text)
    assert found.startswith(what)


def test_places_beside_each_other_are_well() -> None:
    text = places(("s3://lake/t", ["s3://landing/x", "s3://landing/x-y", "s3://landing/xy"]), ("s3://lake/t-2", ["/x"]))
    assert len(list(config(text).sources())) == 4


def test_each_of_many_overlaps_is_found() -> None:
    uris = ["s3://landing/x", "s3://landing/x!", "s3://landing/x/a", "s3://landing/x/b", "s3://landing/x/b/c"]
    found = problems(places(("s3://lake/t", uris)))
    assert [line.split(".uri")[0][-2:] for line in found] == ["s2", "s3", "s4"]


def test_two_pipelines_may_feed_one_table() -> None:
    text = places(("s3://lake/t", ["s3://landing/x"]), ("s3a://lake/t/", ["s3://landing/y"]))
    assert {pipeline.table_uri for pipeline, _ in config(text).sources()} == {"s3://lake/t"}


def test_two_pipelines_of_one_table_partition_it_alike() -> None:
    text = places(("s3://lake/t", ["s3://landing/x"]), ("s3://lake/t", ["s3://landing/y"]))
    (found,) = problems(text + "    partition_by: [id]\n")
    assert found.startswith(
        "f.yaml:10: pipelines.b.partition_by: found ['id'], but pipeline a partitions the same table"
    )


@pytest.mark.parametrize("line", ["schema: ID BIGINT", "{schema: x INT, partition_columns: {id: bigint}}"])
def test_one_column_of_a_table_has_one_type(line: str) -> None:
    other = line if line.startswith("{") else f"{{{line}}}"
    text = places(("s3://lake/t", ["s3://landing/x"])) + f"      other: {{uri: s3://other, {other[1:]}\n"
    (found,) = problems(text)
    assert "is bigint here and int in source a:s0 of the same table; give it one type, or another name" in found


def test_sources_of_different_tables_may_differ() -> None:
    text = places(("s3://lake/t", ["s3://landing/x"]), ("s3://lake/u", ["s3://landing/y"]))
    assert config(text.replace("landing/y', schema: id INT", "landing/y', schema: id STRING")).pipelines


def test_two_sources_of_a_table_do_not_share_their_state() -> None:
    text = places(("s3://lake/t", ["s3://x11"]), ("s3://lake/t", ["s3://y11"]))
    text = text.replace("  a:", "  a_b:").replace("  b:", "  a:").replace("s0:", "c:", 1).replace("s0:", "b_c:")
    (found,) = problems(text)
    assert found.startswith(
        "f.yaml:9: pipelines.a.sources.b_c: keeps its state in _blizzard/a_b_c, as pipelines.a_b.sources.c"
    )


# --- Everything at once ---

BROKEN = """\
pipelines:
  events:
    table_uri: ${LAKE}/events
    partition_by: [region]
    sources:
      landing:
        uri: s3://landing/raw/
        patern: "*.gz"
        schema: id STRNG
        checkpoint: {interval_files: none}
      twice:
        uri: s3://landing/raw/more
        schema: id INT
        format: text
        schema: id INT
      nothing: {}
  other:
    table_uri: s3://landing/raw/table
pipeline: {}
"""


def test_every_problem_is_said_at_once_in_the_order_of_the_file() -> None:
    places_and_texts = [
        "3: pipelines.events.table_uri: variable LAKE is not set",
        "8: pipelines.events.sources.landing.patern: unknown key",
        "9: pipelines.events.sources.landing.schema: Spark cannot use",
        "10: pipelines.events.sources.landing.checkpoint.interval_files: found 'none'",
        "12: pipelines.events.sources.twice.uri: found s3://landing/raw/more/, which lies inside",
        "13: pipelines.events.sources.twice.schema: is there twice, on lines 13 and 15; remove one",
        "16: pipelines.events.sources.nothing.uri: is missing; add it: The folder or prefix",
        "16: pipelines.events.sources.nothing.schema: is missing",
        "17: pipelines.other.sources: is missing; add it",
        "18: pipelines.other.table_uri: found s3://landing/raw/table/, which lies inside",
        "19: pipeline: unknown key; did you mean `pipelines`?",
    ]
    found = problems(BROKEN)
    assert len(found) == len(places_and_texts)
    for problem, expected in zip(found, places_and_texts, strict=True):
        assert problem.startswith(f"f.yaml:{expected}")


@pytest.mark.parametrize(
    "text",
    [
        source_lines("uri: s3://landing", "schema: id INT", "checkpoint: {interval_files: '${X}'}"),
        source_lines("uri: s3://landing", "schema: id INT", "format: ${X}"),
        source_lines("uri: s3://landing", "schema: ${X}", pipeline="    partition_by: [date]\n"),
        source_lines("uri: s3://landing", "schema: id INT", pipeline="    partition_by: ['${X}']\n"),
        source_lines("uri: ${X}", "schema: id INT", table="/conf"),
        source_lines("uri: /conf", "schema: id INT", table="${X}"),
    ],
)
def test_a_missing_variable_has_no_other_problem_in_its_wake(text: str) -> None:
    (found,) = problems(text)
    assert "variable X is not set" in found


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "f.yaml:1: the file is empty; expected `pipelines:`"),
        ("# nothing\n", "f.yaml:1: the file is empty"),
        ("hello", "f.yaml:1: found 'hello', expected a mapping of settings"),
        ("- pipelines", "f.yaml:1: found a list, expected a mapping"),
        ("pipelines:", "f.yaml:1: pipelines: found nothing, expected a mapping of names to values"),
        ("pipelines: {}", "f.yaml:1: pipelines: there is no pipeline; add one"),
        ("pipelines: {a: {table_uri: /t, sources: {}}}", "f.yaml:1: pipelines.a.sources: there is no source"),
        ("a: [\nb: 1", "f.yaml:2: this is not YAML: "),
        ("a:\n\t- b", "f.yaml:2: this is not YAML: found character '\\t'"),
        ("a: 1\n---\nb: 2", "f.yaml:2: this is not YAML: but found another document"),
        ("a: 1\nb: \0", "f.yaml:2: found the control character U+0000; remove it"),
        ("pipelines: *x", "f.yaml:1: this is not YAML: found undefined alias 'x'"),
        ("pipelines: !!python/name:os.system x", "pipelines: has the tag 'tag:yaml.org,2002:python/name:os.system'"),
        ("pipelines: !mine {}", "f.yaml:1: pipelines: has the tag '!mine'; expected a plain value; remove the tag"),
        ("? [a]\n: 1", "f.yaml:1: found a sequence as a key on line 1; expected a word"),
        ("a: &a [*a]", "f.yaml:1: the file is nested deeper than 20 levels"),
        ("[" * 100_000, "f.yaml:1: the file is nested deeper than 20 levels"),
        ("#" * (1 << 20) + "#", "f.yaml: the file is larger than 1048576 bytes"),
        ("é" * (1 << 19) + "é", "f.yaml: the file is larger than 1048576 bytes"),
    ],
)
def test_what_is_no_configuration_at_all_is_said(text: str, what: str) -> None:
    assert what in problems(text)[0]


def test_a_few_lines_that_stand_for_billions_of_values_are_refused() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    (found,) = problems("\n".join(lines))
    assert "stands for more than 20000 values; expand fewer aliases" in found


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "cannot be read: No such file or directory; expected the path of a configuration file"),
        (b"a: 1\nb: \xff", ":2: found a byte that is not UTF-8; save the file as UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_said(tmp_path: Path, content: bytes | None, what: str) -> None:
    file = tmp_path / "pipelines.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        load_config(file, {})
    assert error.value.problems[0].startswith(str(file))
    assert what in error.value.problems[0]


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + FULL.encode())
    assert load_config(file, {}).pipelines


lines_of_full = FULL.splitlines()
junk = st.sampled_from(
    ["", "x", "5", "[]", "{}", "- a", "  a: b", "${X}", "${", "*x", "&x", "!y", "'", '"', "null", "\t", "pipelines:"]
)


@given(st.lists(st.tuples(st.integers(0, len(lines_of_full) - 1), st.integers(0, 60), junk), max_size=3))
def test_no_damage_to_a_file_makes_reading_it_fail_without_a_reason(damage: list[tuple[int, int, str]]) -> None:
    lines = list(lines_of_full)
    for line, cut, text in damage:
        lines[line] = lines[line][:cut] + text
    reading = read_config("\n".join(lines), {}, name="f", folder="/conf")
    assert (reading.config is None) == bool(reading.problems)
    assert all(str(problem).startswith("f:") for problem in reading.problems)


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text_is_read_or_refused_with_a_reason(text: str) -> None:
    assert read_config(text, {}, name="f", folder=None).problems


# --- What the code, the documentation and the examples say of each other ---


def fields(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, typing.Any]]:
    for name, field in model.model_fields.items():
        yield f"{path}{field.alias or name}", field
        for inner in (field.annotation, *typing.get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                deeper = inner in (Source,) or inner.__name__ == "Pipeline"
                yield from fields(inner, "" if deeper else f"{path}{field.alias or name}.")


@pytest.mark.parametrize(
    ("name", "field"), list(fields(Config)), ids=lambda value: value if isinstance(value, str) else ""
)
def test_each_field_has_a_row_in_the_documentation_with_its_default(name: str, field: typing.Any) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    row = re.search(rf"^\| `{re.escape(name)}` \|([^|]*)\|", page, re.MULTILINE)
    assert row, f"docs/configuration.md has no row that begins with | `{name}` |"
    assert field.description
    if isinstance(field.default, int | str):
        gib, mib = 1 << 30, 1 << 20
        texts = {gib: "1GiB", 16 * mib: "16MiB", 64 * gib: "64GiB", 128 * mib: "128MiB", 256 * mib: "256MiB"}
        sizes: dict[object, str] = dict(texts)
        assert f"`{sizes.get(field.default, field.default)}`" in row[1]
    if field.is_required():
        assert "required" in row[1]


def test_every_yaml_of_the_documentation_is_valid() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    blocks = re.findall(r"^```yaml\n(pipelines:.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        assert config(block).pipelines


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda file: file.name)
def test_each_example_is_valid_with_an_empty_environment(file: Path) -> None:
    assert list(load_config(file, {}).sources())


def test_the_local_example_finds_its_files() -> None:
    _, readings = next(load_config(ROOT / "examples" / "local-ndjson.yaml", {}).sources())
    from blizzard.paths.pattern import Pattern

    folder = Path(readings.uri.removeprefix("file://"))
    paths = [file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()]
    assert len(paths) == 3
    assert all(Pattern(readings.pattern).matches(path) for path in paths)


def test_each_required_field_has_a_stand_in_for_finding_more_problems() -> None:
    required = {name.rpartition(".")[2] for name, field in fields(Config) if field.is_required()}
    assert required == set(_STAND_INS)


def test_each_type_of_a_partition_column_can_be_read() -> None:
    assert set(typing.get_args(PartitionType)) == set(_READERS)


def test_the_configuration_is_imported_without_what_only_the_command_line_needs() -> None:
    code = "import sys, blizzard.config; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env={})
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert not loaded & {"typer", "rich", "sqlglot", "ruamel", "boto3", "botocore", "pyspark", "pyarrow", "obstore"}
