"""The options of a format: from the block of a source to `open_format`."""

import json
from typing import get_args

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from blizzard.config.formats import FILE_FORMATS
from blizzard.config.model import Source
from blizzard.config.publish import to_published
from blizzard.storage.s3_connection import S3Settings
from spark_job.tasks.batch_tasks import Task
from spark_job.tasks.destination import Destination
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from spark_job.wiring import read_settings
from spark_job.write.data_file import TableLayout
from tests.unit.config_files import config, problems, source_lines

TEXT = StructType([StructField("value", StringType())])


def test_a_task_without_options_is_read_as_one_with_none() -> None:
    """As JSON of the version before, in which there were no options."""
    layout, provenance = TableLayout("", (), (), 32, 1 << 27), Provenance("events:landing", 7, {})
    destination = Destination("table", layout, "deferred/", TEXT.json(), provenance)
    task = Task("landing", S3Settings(), ReadSettings("text"), destination)
    document = json.loads(task.to_json())
    assert document["settings"].pop("options") == {}
    assert Task.from_json(json.dumps(document)) == task


def test_the_options_of_a_format_are_the_block_of_its_name_with_every_default() -> None:
    lines = source_lines("uri: s3://landing", "format: xml", "schema: id INT", "xml: {row_tag: order}")
    ((_, source),) = config(lines).sources()
    assert read_settings(source).options == {
        "row_tag": "order",
        "ignore_namespace": False,
        "decimal_point": ".",
        "date_format": None,
        "timestamp_format": None,
        "timezone": "UTC",
    }


def test_a_format_without_a_block_has_no_options() -> None:
    lines = source_lines("uri: s3://landing", "schema: id STRING")
    assert [source.format_options for _, source in config(lines).sources()] == [{}]


@pytest.mark.parametrize("name", [name for name, known in FILE_FORMATS.items() if known.options is not None])
def test_each_block_is_a_field_of_a_source_with_the_format_s_name(name: str) -> None:
    field = Source.model_fields[f"{name}_options"]
    assert field.alias == name
    assert FILE_FORMATS[name].options in get_args(field.annotation)


def test_the_block_of_another_format_is_reported() -> None:
    (found,) = problems(source_lines("uri: s3://landing", "schema: id STRING", "csv: {delimiter: ';'}"))
    assert found.endswith("s.csv: has no effect with `format: ndjson`, only with csv; remove it")


def test_a_published_configuration_has_the_blocks_of_no_other_format() -> None:
    lines = source_lines(
        "uri: s3://landing", "format: csv", "schema: id STRING", "csv: {delimiter: ';'}", table="s3://lake/t"
    )
    published = config(lines)
    assert to_published(published)


def test_xml_needs_the_name_of_its_records() -> None:
    (found,) = problems(source_lines("uri: s3://landing", "format: xml", "schema: id STRING"))
    assert "s.xml.row_tag: is missing; add the name of the elements that are records" in found


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ("csv: {delimiter: ';;'}", "expected one ASCII character"),
        ("csv: {encoding: klingon}", "expected an encoding such as utf-8"),
        ("csv: {encoding: rot13}", "expected an encoding such as utf-8"),
        ("csv: {date_format: dd.MM.yyyy}", "expected a format with directives of strptime, such as %d.%m.%Y"),
        ("csv: {encoding: utf-7}", "expected an encoding such as utf-8"),
        ("csv: {encoding: unicode_escape}", "expected an encoding such as utf-8"),
        ("csv: {date_format: '%d.%m.%d'}", "which strptime cannot read"),
        ("csv: {date_format: '%Q'}", "which strptime cannot read"),
        ("csv: {timestamp_format: '%Y-%m-%d %Z'}", "with %Z, whose names are ambiguous"),
        ("csv: {header: []}", "header has no name"),
        ("csv: {header: 'id,n'}", "header: found 'id,n', expected true, false, or a list of names"),
        ("csv: {header: [1, 2]}", "header: found [1, 2], expected true, false, or a list of names, numbers in quotes"),
        ("csv: {header: [x, y]}", "csv.header: found ['x', 'y'], expected some of id"),
        ("csv: {header: [ID, n]}", "csv.header: found ['ID', 'n'], expected some of id"),
        ("csv: {skip_rows: true}", "found true, expected a number"),
        ("csv: {quote: null, escape: '\\'}", "escape has no effect with `quote: null`"),
        ("csv: {date_format: '%d.%m.'}", "which has no year, so all values would be in 1900"),
        ("csv: {timestamp_format: '%H:%M'}", "which has no year, so all values would be in 1900"),
        ("csv: {comment: '\"'}", "is also the quote or the escape"),
        ("csv: {timezone: Berlin}", "expected a time zone such as UTC or Europe/Berlin"),
        ("csv: {header: [id, id]}", "the name id twice"),
        ("csv: {quote: ',' }", "is also the delimiter"),
        ("csv: {delimeter: ';'}", "did you mean `delimiter`?"),
        ("delimiter: ';'", "it belongs in `csv`"),
    ],
)
def test_an_option_that_is_wrong_says_what_to_do(block: str, says: str) -> None:
    (found,) = problems(source_lines("uri: s3://landing", "format: csv", "schema: id STRING", block))
    assert says in found


def test_names_of_columns_have_those_that_are_not_null() -> None:
    lines = ["uri: s3://landing", "format: csv", "schema: id STRING NOT NULL, n INT"]
    (found,) = problems(source_lines(*lines, "csv: {header: [n, x]}"))
    assert "s.csv.header: found no 'id', which `schema` has as NOT NULL" in found
    assert config(source_lines(*lines, "csv: {header: [n, x]}", "fields: {id: x}"))
    assert config(source_lines(*lines, "csv: {header: [ID, x]}", "keys: ignore_case"))
    assert config(source_lines(*lines, "csv: {header: ['id']}"))


@pytest.mark.parametrize("written", ["yes", "'true'", "false", "[id]"])
def test_a_header_is_true_or_false_or_names(written: str) -> None:
    lines = source_lines("uri: s3://landing", "format: csv", "schema: id STRING", f"csv: {{header: {written}}}")
    assert config(lines)


@pytest.mark.parametrize("form", ["%Y-%m", "%d.%m.%y", "%G-%V-%u", "%Y%j"])
def test_a_date_format_needs_a_year_and_no_more(form: str) -> None:
    lines = source_lines("uri: s3://landing", "format: csv", "schema: d DATE", f"csv: {{date_format: '{form}'}}")
    assert config(lines)


def test_a_column_of_csv_is_one_value() -> None:
    (found,) = problems(source_lines("uri: s3://landing", "format: csv", "schema: a ARRAY<INT>"))
    assert "column `a` is nested; a field of CSV is one value: use STRING" in found


@pytest.mark.parametrize(("configured", "expected"), [("auto", "none"), ("gzip", "gzip")])
def test_a_binary_file_is_decompressed_only_if_it_says_so(configured: str, expected: str) -> None:
    lines = source_lines("uri: s3://landing", "format: binary", f"compression: {configured}")
    assert [source.file_compression for _, source in config(lines).sources()] == [expected]
