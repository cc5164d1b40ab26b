"""The suggested example file fits its source."""

import gzip
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from blizzard.config.formats import FILE_FORMATS
from blizzard.config.load import read_config
from blizzard.config.model import Config
from infra.local.stack.example_file import example_file, key_for

NOON_TS = 1706443200.0


def config(*sources: str) -> Config:
    rows = "".join(f"      s{number}: {{uri: s3://landing/s{number}/, {one}}}\n" for number, one in enumerate(sources))
    text = f"pipelines:\n  p:\n    table_uri: s3://lake/t\n    sources:\n{rows}"
    found = read_config(text, {}, name="c.yaml", folder="/").config
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ("format: text", "s0/first.txt"),
        ("format: text, pattern: '**/*.log.gz'", "s0/first.log.gz"),
        ("format: text, pattern: '*.log'", "s0/first.log"),
        ("format: text, partition_filter: {prefix_template: '%Y/%m/%d/%H', lookback: 2}", "s0/2024/01/28/12/first.txt"),
        ("format: text, partition_columns: {date: date, shard: int}", "s0/date=2024-01-28/shard=1/first.txt"),
        ("schema: 'id STRING'", "s0/first.ndjson"),
    ],
)
def test_the_key_matches_the_sources_folder_and_pattern(source: str, key: str) -> None:
    found = config(source)
    example = example_file(next(found.sources())[1], NOON_TS)
    assert example.key == key
    assert key_for(found, example.name, NOON_TS) == key


@pytest.mark.parametrize("pattern", ["in-[0-9]*.txt", "{a,b}/**", "deep/*.txt"])
def test_without_a_usable_pattern_the_user_chooses_the_file(pattern: str) -> None:
    example = example_file(next(config(f"format: text, pattern: '{pattern}'").sources())[1], NOON_TS)
    assert (example.name, example.command) == ("FILE", f"FILE: a file that matches {pattern}")


def test_the_user_makes_a_file_that_is_not_text(monkeypatch: pytest.MonkeyPatch) -> None:
    binary = replace(FILE_FORMATS["text"], example=None)
    monkeypatch.setattr("infra.local.stack.example_file.FILE_FORMATS", {**FILE_FORMATS, "text": binary})
    example = example_file(next(config("format: text, pattern: '*.txt'").sources())[1], NOON_TS)
    assert (example.name, example.command) == ("FILE", "FILE: a file that matches *.txt")


def test_the_command_makes_a_file_with_every_required_column(tmp_path: Path) -> None:
    schema = "id STRING NOT NULL, number BIGINT NOT NULL, right BOOLEAN NOT NULL, other STRING"
    found = config(f"schema: '{schema}', pattern: '**/*.ndjson.gz'")
    example = example_file(next(found.sources())[1], NOON_TS)
    subprocess.run(["/bin/sh", "-c", example.command], cwd=tmp_path, check=True)
    record = json.loads(gzip.decompress((tmp_path / example.name).read_bytes()))
    assert record == {"id": "first", "number": 1, "right": True}


def test_any_record_is_an_example_for_an_inferred_schema() -> None:
    example = example_file(next(config("schema: infer").sources())[1], NOON_TS)
    assert """{"id": 1}""" in example.command


def test_a_file_belongs_to_the_first_source_whose_pattern_it_matches() -> None:
    found = config("format: text, pattern: '*.log'", "format: text, pattern: '*.txt'")
    assert key_for(found, "mine.txt", NOON_TS) == "s1/mine.txt"
    assert key_for(found, "mine.gz", NOON_TS) is None
