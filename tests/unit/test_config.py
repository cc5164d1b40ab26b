"""What a valid `pipelines.yaml` is read as."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from blizzard.config.load import load_config
from tests.unit.config_files import FULL, config, problems, source, source_lines


def test_a_configuration_with_every_field_is_read() -> None:
    pipeline, landing = next(config(FULL).sources())
    assert (pipeline.name, pipeline.table_uri, pipeline.partition_by) == ("events", "s3://lake/events", ["date"])
    assert (landing.uri, landing.pattern, landing.format) == ("s3://landing/raw-events/", "**/*.ndjson.gz", "ndjson")
    assert landing.schema_ddl == "id STRING NOT NULL, timestamp BIGINT, value DOUBLE, payload STRING"
    assert landing.partition_columns == {"date": "date"}
    assert landing.partition_filter is not None
    assert (landing.partition_filter.prefix_template, landing.partition_filter.lookback) == ("date=%Y-%m-%d", 7)
    assert (landing.checkpoint.interval_files, landing.checkpoint.interval_bytes) == (1000, 1 << 30)


def test_a_source_has_the_names_from_the_file() -> None:
    _, landing = next(config(FULL).sources())
    assert (landing.name, landing.pipeline, landing.id) == ("landing", "events", "events:landing")
    assert landing.state_prefix == "_blizzard/events_landing"


def test_a_missing_field_has_its_default() -> None:
    plain = source()
    assert (plain.pattern, plain.format, plain.compression, plain.on_overwrite) == ("**", "ndjson", "auto", "ignore")
    assert (plain.partition_columns, plain.partition_filter, plain.settle_delay_secs) == ({}, None, 60)
    assert plain.checkpoint.model_dump() == {
        "interval_files": 1000,
        "interval_bytes": 1 << 30,
        "interval_records": 1_000_000,
        "interval_secs": 60,
    }
    assert plain.sweep.model_dump() == {
        "interval_secs": 60,
        "late_interval_secs": 3600,
        "late_overlap_secs": 86400,
        "unordered_requests": 60,
        "quiet_secs": 86400.0,
    }
    assert plain.limits.model_dump() == {
        "max_record_bytes": 16 << 20,
        "max_file_bytes": 64 << 30,
        "max_tracked_files": 1000,
        "task_memory_bytes": 256 << 20,
    }
    assert plain.retries.model_dump() == {"max_attempts": 8, "max_backoff_secs": 20}


def test_a_format_with_a_fixed_schema_needs_none() -> None:
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
def test_the_uri_of_a_source_is_normalized(written: str, uri: str) -> None:
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
def test_the_uri_of_a_table_is_normalized(written: str, uri: str) -> None:
    text = source_lines("uri: s3://landing", "schema: id INT", table=written)
    assert config(text).pipelines["p"].table_uri == uri


def test_relative_paths_start_from_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "pipelines.yaml"
    file.write_text(source_lines("uri: in", "schema: id INT", table="out"))
    monkeypatch.chdir(tmp_path)
    absolute = load_config(file, {})
    assert next(absolute.sources())[1].uri == f"file://{tmp_path}/conf/in/"
    assert load_config("conf/pipelines.yaml", {}) == absolute


def test_without_a_folder_relative_paths_are_refused() -> None:
    found = problems(source_lines("uri: in", "schema: id INT", table="out"), folder=None)
    expected = "expected s3://bucket/prefix or file:///folder"
    assert found == [
        f"f.yaml:3: pipelines.p.table_uri: found the relative path 'out'; {expected}",
        f"f.yaml:6: pipelines.p.sources.s.uri: found the relative path 'in'; {expected}",
    ]


def test_variables_are_replaced_after_parsing() -> None:
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


def test_keys_that_older_yaml_reads_as_other_types_are_text() -> None:
    text = (
        source_lines("uri: s3://landing", "schema: id INT")
        .replace("  p:", "  no:")
        .replace("      s:", "      2024-01-01:")
    )
    assert [source.id for _, source in config(text).sources()] == ["no:2024-01-01"]


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        source().pattern = "x"
