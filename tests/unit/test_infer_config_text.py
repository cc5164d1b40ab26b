"""The configuration that `blizzard init` writes: whatever was found, it is valid, and means what was found."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config import ddl
from blizzard.config.ddl import Atomic, Column
from blizzard.config.load import parse_config
from blizzard.config.model import Source
from blizzard.infer.config_text import config_text
from blizzard.infer.ddl_text import ddl_of
from blizzard.infer.findings import (
    ColumnFound,
    DatedFound,
    FilesLeftOut,
    Findings,
    LeftOutField,
    PipelineFound,
    RuleFound,
    SourceFound,
)
from tests.unit.documents import fences

PLAIN = RuleFound("**/*.ndjson", "ndjson", "auto", {})


def found(*, rules: tuple[RuleFound, ...] = (PLAIN,), names: tuple[str, ...] = ("id",), **changed: Any) -> Findings:
    columns = [ColumnFound(name, "BIGINT", 1, 2, ["17"], {"BIGINT": 1, "STRING": 1}) for name in names]
    source = {
        "name": "landing",
        "uri": "s3://landing/x/",
        "pattern": "**/*.ndjson",
        "rules": rules,
        "schema": ddl_of([Column(name, Atomic("bigint")) for name in names]),
        "columns": columns,
        "left_out": [],
        "partition_columns": {},
        "dated": None,
        "settle_delay_secs": None,
        "interval_files": None,
        "interval_bytes": None,
        "files": 3,
        "bytes": 100,
        "looked_at": 2,
        "records": 2,
        "broken": 0,
    }
    pipeline = PipelineFound("t", "s3://lake/t", (), [SourceFound(**{**source, **changed})])
    return Findings("s3://landing/x/", "s3://lake/t", 3, 100, True, 1, [pipeline], [])


def source_of(findings: Findings) -> Source:
    ((_, source),) = parse_config(config_text(findings), {}).sources()
    return source


storable_names = st.text(
    st.characters(exclude_characters=" ,;{}()\n\t=", exclude_categories=["Cs"]), min_size=1
).filter(lambda name: not name.lower().startswith(("_source", "_blizzard")))


@given(st.lists(storable_names, min_size=1, max_size=4, unique_by=str.lower), st.text(max_size=20))
def test_any_names_and_notes_give_a_valid_configuration(names: list[str], note: str) -> None:
    source = source_of(found(names=tuple(names), notes=[note], left_out=[LeftOutField(note, note)]))
    assert [column.name for column in ddl.parse(source.row_ddl).columns] == names


def test_the_settings_are_those_that_were_found() -> None:
    source = source_of(
        found(
            uri="s3://landing/${X}/",
            pattern="**/*{.a,.b}",
            partition_columns={"date": "date", "größe": "int"},
            dated=DatedFound("date=%Y-%m-%d", 12),
            settle_delay_secs=90.0,
            interval_files=10_000,
            interval_bytes=4 << 30,
        )
    )
    assert (source.uri, source.pattern) == ("s3://landing/${X}/", "**/*{.a,.b}")
    assert source.partition_columns == {"date": "date", "größe": "int"}
    assert source.partition_filter is not None
    assert (source.partition_filter.prefix_template, source.partition_filter.lookback) == ("date=%Y-%m-%d", 12)
    assert source.settle_delay_secs == 90
    assert (source.checkpoint.interval_files, source.checkpoint.interval_bytes) == (10_000, 4 << 30)


def test_options_are_written_as_they_are() -> None:
    options = {
        "delimiter": "\t",
        "header": ["a", "true", "${b}"],
        "skip_rows": 1,
        "null_values": ["", "-"],
        "quote": None,
    }
    source = source_of(found(rules=(RuleFound("**", "csv", "gzip", options),), names=("a",)))
    assert source.csv_options is not None
    assert source.csv_options.model_dump(include={*options}) == options
    assert (source.format, source.compression) == ("csv", "gzip")


def test_several_rules_are_mixed() -> None:
    rules = (RuleFound("**/*.csv", "csv", "auto", {"delimiter": ";"}, ["a guess"]), PLAIN)
    source = source_of(found(rules=rules))
    assert [(rule.pattern, rule.format) for rule in source.mixed_options or ()] == [
        ("**/*.csv", "csv"),
        ("**/*.ndjson", "ndjson"),
    ]


def test_a_format_with_a_schema_of_its_own_gets_none() -> None:
    assert (
        source_of(found(rules=(RuleFound("**", "text", "auto", {}),), schema="", columns=[])).row_ddl == "value STRING"
    )


def test_each_guess_has_a_comment() -> None:
    findings = found(notes=["one guess"], left_out=[LeftOutField("a b", "column `a b` has a blank")])
    left_out = FilesLeftOut(1, "x.zip", "a zip archive")
    text = config_text(Findings("u", "t", 3, 100, False, 61, findings.pipelines, [left_out]))
    for comment in (
        "# Written by `blizzard init`: 3 files were listed, the first and others spread over the rest, and 2 looked",
        "# not read: 1 file, such as x.zip: a zip archive",
        "# 3 files, 100 bytes",
        "# one guess",
        "-- in 1 of 2 records; found BIGINT 1, STRING 1",
        "# no column for a b: column `a b` has a blank",
    ):
        assert comment in text
    assert "17" not in text


def test_what_was_found_can_be_handed_over() -> None:
    findings = found(dated=DatedFound("%Y", 1))
    assert Findings.of_json(findings.as_json()).as_json() == findings.as_json()


@pytest.mark.parametrize("fence", [one for one in fences("yaml") if "pipelines:" in one.body], ids=str)
def test_the_configurations_of_the_page_are_valid(fence: Any) -> None:
    if "schemas.md" in str(fence):
        parse_config(fence.body, {}, folder="/")


def test_the_page_shows_one_as_it_is_written() -> None:
    (shown,) = [one.body for one in fences("yaml") if one.body.startswith("# Written by `blizzard init`")]
    lines = [line.strip() for line in config_text(found(dated=DatedFound("date=%Y-%m-%d", 12))).splitlines()]
    comments = [line for line in shown.splitlines() if re.match(r"\s*(# What|partition_filter:|schema:)", line)]
    assert len(comments) == 3
    assert [line for line in comments if line.strip() not in lines] == []
