"""A wrong value in `pipelines.yaml` is reported with its line and field."""

import pytest

from blizzard.config.formats import FILE_FORMATS
from blizzard.config.formats import FORMATS as ALL_FORMATS
from tests.unit.config_files import config, problems, source, source_lines

FORMATS = " or ".join(", ".join(map(repr, ALL_FORMATS)).rsplit(", ", 1))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("patern: x", "s.patern: unknown key; did you mean `pattern`? expected one of format, compression,"),
        ("interval_files: 5", "s.interval_files: unknown key here; it belongs in `checkpoint`: move it there"),
        ("checkpoint: {interval_fils: 5}", "s.checkpoint.interval_fils: unknown key; did you mean `interval_files`?"),
        ("name: x", "s.name: unknown key"),
        ("schema_ddl: x", "s.schema_ddl: unknown key"),
        ("format: jsonl", f"s.format: found 'jsonl', expected one of {FORMATS}; change it"),
        (
            "compression: brotli",
            "s.compression: found 'brotli', expected one of 'auto', 'gzip', 'zstd', 'bzip2'",
        ),
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
        ("partition_columns: {_d: date}", "partition_columns._d: begins with `_`; VACUUM treats such folders"),
        ("partition_columns: {ID: int}", "partition_columns.ID: is in `schema` too"),
        ("partition_columns: {d: int, D: int}", "partition_columns.D: occurs twice"),
        ("partition_columns: {'': int}", "partition_columns.'': column `` has no name; add one"),
        ("partition_filter: {lookback: 1}", "prefix_template: is missing; add it: The leading folders"),
        ("partition_filter: {prefix_template: '%Y', lookback: 0}", "lookback: found 0, expected 1 or more"),
        ("partition_filter: {prefix_template: '%d.%Y', lookback: 1}", "prefix_template: such folders do not sort"),
        ("partition_filter: {prefix_template: '/%Y', lookback: 1}", "prefix_template: found '/%Y'; expected folders"),
    ],
)
def test_a_wrong_value_is_reported_with_its_line_and_field(line: str, what: str) -> None:
    found = problems(source_lines("uri: s3://landing", "schema: id STRING", line))
    assert len(found) == 1
    assert found[0].startswith("f.yaml:8: pipelines.p.sources.s.")
    assert what in found[0]


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ("id STRNG", "Spark cannot use this schema: found 'STRNG' at character 4"),
        ("''", "Spark cannot use this schema: found the end"),
        ("a INT, A INT", "column `A` occurs twice"),
        ("_Source INT", "column `_Source` is reserved: Blizzard writes there which file a row came from; rename it"),
        ("_blizzard_x INT", "column `_blizzard_x`: names that begin with _blizzard are reserved; rename it"),
        ("a STRUCT<>", "column `a` is a struct without columns"),
    ],
)
def test_a_schema_that_cannot_be_used_is_reported(schema: str, what: str) -> None:
    (found,) = problems(source_lines("uri: s3://landing", f"schema: {schema}"))
    assert found.startswith("f.yaml:7: pipelines.p.sources.s.schema: ")
    assert what in found


def test_reserved_names_are_allowed_within_a_struct() -> None:
    assert source("schema: 'a STRUCT<_source: INT>, _id INT'").schema_ddl


def test_ndjson_requires_a_schema_and_text_refuses_one() -> None:
    (missing,) = problems(source_lines("uri: s3://landing"))
    assert missing.startswith("f.yaml:5: pipelines.p.sources.s.schema: is missing; add the columns")
    (extra,) = problems(source_lines("uri: s3://landing", "format: text", "schema: value STRING"))
    assert extra.startswith("f.yaml:8: pipelines.p.sources.s.schema: found a schema with `format: text`")


def test_a_schema_may_be_inferred_unless_the_format_has_its_own() -> None:
    inferred = config(source_lines("uri: s3://landing", "schema: infer", pipeline="    partition_by: [day]\n"))
    ((_, found),) = inferred.sources()
    assert found.infers_schema
    assert found.row_ddl == ""
    (extra,) = problems(source_lines("uri: s3://landing", "format: binary", "schema: infer"))
    assert "found a schema with `format: binary`" in extra


def test_what_depends_on_an_inferred_schema_is_checked_as_far_as_that_goes() -> None:
    infers = ("uri: s3://landing", "schema: infer")
    named = "fields: {id: ID}", "derive: {day: date(at), folder: _source.file}"
    assert config(source_lines(*infers, *named, pipeline="    constraints: {positive: value >= 0}\n"))
    (random,) = problems(source_lines(*infers, "derive: {a: rand()}"))
    assert "derive.a: has rand(), which has another value each time" in random
    (reserved,) = problems(source_lines(*infers, "derive: {_source: date(at)}"))
    assert "column `_source` is reserved" in reserved
    (twice,) = problems(source_lines(*infers, "partition_columns: {day: date}", "derive: {day: date(at)}"))
    assert "derive.day: is a column of the record or its path already" in twice
    (dots,) = problems(source_lines(*infers, "format: csv", "fields: {city: address.city}"))
    assert "a field of CSV has no fields of its own" in dots
    (changing,) = problems(source_lines(*infers, pipeline="    constraints: {a: b > now()}\n"))
    assert "constraints.a: has now(), which has another value each time" in changing


@pytest.mark.parametrize(
    ("uri", "what"),
    [
        ("''", "is missing; add it: The folder or prefix: s3://bucket/prefix/, file:///folder/ or a path"),
        ("' s3://landing'", "without surrounding blanks"),
        ('"s3://landing/a\\nb"', "control characters"),
        ("gs://landing/x", "found 'gs://landing/x'; expected s3://bucket/prefix"),
        ("s3:/landing/x", "expected s3://bucket/prefix"),
        ("s3:///x", "found '' as the bucket"),
        ("s3://Landing/x", "found 'Landing' as the bucket"),
        ("s3://key:secret@landing/x", "expected only the bucket's name; remove credentials"),
        ("https://key:secret@host/x", "found 'https://…@host/x'; expected"),
        ("s3://landing/../x", "write the full path"),
        ("file://data/x", "found 'file://data/x'; expected"),
        ("~/x", "write ${HOME}/x"),
        ("s3://landing/*.gz", "with a wildcard"),
        ("x" * 1025, "found 1025 characters"),
    ],
)
def test_an_invalid_uri_is_reported(uri: str, what: str) -> None:
    (found,) = problems(source_lines(f"uri: {uri}", "schema: id INT"))
    assert found.startswith("f.yaml:6: pipelines.p.sources.s.uri: ")
    assert what in found


def test_credentials_in_a_uri_are_not_repeated() -> None:
    for uri in (
        "s3://key:secret@landing/x",
        "https://secret@host/x",
        "ftp://key:secret@host/*",
        "s3://secret@landing/*",
    ):
        assert "secret" not in "".join(problems(source_lines(f"uri: {uri}", "schema: id INT")))


@pytest.mark.parametrize("table", ["s3://lake", "s3://lake/", "/", "file:///", "s3://lake//x", "..", "s3://lake//"])
def test_a_table_cannot_be_the_root_of_a_bucket_or_disk(table: str) -> None:
    (found,) = problems(source_lines("uri: s3://landing", "schema: id INT", table=table))
    assert found.startswith(f"f.yaml:3: pipelines.p.table_uri: found '{table}'")


@pytest.mark.parametrize("name", ["a b", "a.b", "_a", "-a", "a" * 64, "é", "a/b", "'a\\n'", "''"])
def test_a_name_consists_of_letters_digits_and_dashes(name: str) -> None:
    text = source_lines("uri: s3://landing", "schema: id INT")
    for found in (problems(text.replace("  p:", f"  {name}:")), problems(text.replace("      s:", f"      {name}:"))):
        assert any("expected a name of letters, digits, _ and -" in problem for problem in found)


@pytest.mark.parametrize("name", FILE_FORMATS)
def test_a_schema_is_required_exactly_when_the_format_has_none(name: str) -> None:
    more = {"xml": ["xml: {row_tag: one}"], "mixed": ["mixed: [{pattern: '**', format: csv}]"]}
    lines = ["uri: s3://landing", f"format: {name}", *more.get(name, ())]
    with_schema, without_schema = source_lines(*lines, "schema: id STRING"), source_lines(*lines)
    is_required = FILE_FORMATS[name].requires_schema
    assert config(with_schema if is_required else without_schema).pipelines
    (found,) = problems(without_schema if is_required else with_schema)
    assert "pipelines.p.sources.s.schema: " in found
