"""The configuration for what was found, as YAML with a comment at each guess. It holds no values of the data."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blizzard.infer.ddl_text import quoted
from blizzard.infer.findings import ColumnFound, Findings, PipelineFound, RuleFound, SourceFound
from blizzard.infer.reasons import (
    EXISTS,
    FROM_FOLDERS,
    OWN_NAMES,
    REACHES_BACK,
    by_compression,
    by_content,
    by_spellings,
    by_times,
    counted,
    listed,
)
from blizzard.log import one_line

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_/.-]*(?:://?/?[A-Za-z0-9_/.-]+)?")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

MAX_NAMED = 20
CLUSTERING = "a guess, if queries ask for times; such a table needs Spark for its commits"


def config_text(found: Findings) -> str:
    return "\n".join([*_head(found), "pipelines:", *_pipelines(found)]) + "\n"


def _head(found: Findings) -> Iterator[str]:
    opened = sum(source.looked_at for _, source in found.sources())
    of_all = "" if found.is_whole else ", the first and others spread over the rest"
    yield f"# Written by `blizzard init`: {found.files:,} files were listed{of_all}, and {opened:,} looked into."
    yield "# What the comments say is a guess from these files. Correct it, above all the types, before the first run."
    for one in found.left_out:
        yield _comment(f"not read: {counted(one.files, 'file')}, such as {one.example}: {one.why}", "")


def _pipelines(found: Findings) -> Iterator[str]:
    for pipeline in found.pipelines:
        yield f"  {pipeline.name}:"
        yield f"    table_uri: {_scalar(pipeline.table_uri)}"
        for note in (*([EXISTS] if pipeline.exists else []), *pipeline.notes):
            yield _comment(note, "    ")
        if pipeline.partition_by:
            yield f"    partition_by: {_flow(list(pipeline.partition_by))}"
        if pipeline.cluster_by:
            yield f"    # cluster_by: {_flow(list(pipeline.cluster_by))}  # {CLUSTERING}"
        yield from _sources(pipeline)


def _sources(pipeline: PipelineFound) -> Iterator[str]:
    yield "    sources:"
    for source in pipeline.sources:
        yield f"      {source.name}:"
        yield from (f"        {line}" if line else "" for line in _source(source))


def _source(source: SourceFound) -> Iterator[str]:
    yield f"uri: {_scalar(source.uri)}"
    yield f"pattern: {_scalar(source.pattern)}  # {counted(source.files, 'file')}, {source.bytes:,} bytes"
    for note in source.notes:
        yield _comment(note, "")
    yield from _reading(source.rules)
    yield from _schema(source)
    if source.partition_columns:
        yield f"partition_columns: {_flow(dict(source.partition_columns))}  # {FROM_FOLDERS}"
    if source.dated is not None:
        yield f"partition_filter:  # {REACHES_BACK}"
        yield f"  prefix_template: {_scalar(source.dated.prefix_template)}"
        yield f"  lookback: {source.dated.lookback}"
    if source.settle_delay_secs is not None:
        yield f"settle_delay_secs: {source.settle_delay_secs:g}  # {by_times(source)}"
    interval = {"interval_files": source.interval_files, "interval_bytes": source.interval_bytes}
    if set_ones := {name: value for name, value in interval.items() if value is not None}:
        yield f"checkpoint: {_flow(set_ones)}  # {source.interval_why}"


def _reading(rules: Sequence[RuleFound]) -> Iterator[str]:
    if len(rules) == 1:
        yield from (_comment(note, "") for note in rules[0].notes)
        yield from _rule(rules[0])
        return
    yield "format: mixed  # the files share a folder, so one source reads them, into one table"
    yield "mixed:"
    for rule in rules:
        yield from (_comment(note, "  ") for note in rule.notes)
        pattern, *lines = [f"pattern: {_scalar(rule.pattern)}", *_rule(rule)]
        yield f"  - {pattern}"
        yield from (f"    {line}" for line in lines)


def _rule(rule: RuleFound) -> Iterator[str]:
    yield _with_comment(f"format: {rule.format}", by_content(rule))
    if rule.compression != "auto":
        yield _with_comment(f"compression: {rule.compression}", by_compression(rule))
    if rule.options:
        yield f"{rule.format}:"
        for name, value in rule.options.items():
            yield _with_comment(f"  {name}: {_flow(value)}", rule.why.get(name, ""))


def _schema(source: SourceFound) -> Iterator[str]:
    if not source.schema:
        return
    if source.schema.isprintable():
        yield "schema: |-"
        yield from _commented_columns(source.columns)
    else:  # YAML has such characters only as escapes
        yield f"schema: {_escaped(source.schema)}"
    yield from _always_there(source)
    if source.spellings:
        yield _with_comment("keys: ignore_case", by_spellings(source))
    if source.fields:
        yield _with_comment("fields:", OWN_NAMES)
        yield from (f"  {_scalar(name)}: {_scalar(key)}" for name, key in source.fields.items())
    for field in source.left_out:
        yield _comment(f"no column for {field.path}: {field.why}", "")


def _always_there(source: SourceFound) -> Iterator[str]:
    names = [*map(quoted, source.always_there)]
    if names:
        yield _comment(
            f"in all of the {source.records:,} records: {listed(names, MAX_NAMED)}. If no record may "
            "lack one, write NOT NULL behind its type: one that does is a dead letter then",
            "",
        )


def _escaped(text: str) -> str:
    return json.dumps(text.replace("${", "$${")).replace("\x7f", "\\x7f")


def _commented_columns(columns: Sequence[ColumnFound]) -> Iterator[str]:
    last = len(columns) - 1
    for at, column in enumerate(columns):
        text = f"{quoted(column.name)} {column.type}{',' if at < last else ''}"
        yield f"  {text.replace('${', '$${')}  {_column_comment(column)}"


def _column_comment(column: ColumnFound) -> str:
    """A comment of the DDL."""
    text = f"-- in {column.seen:,} of {column.records:,} records" if column.records else "-- from the files' schema"
    if column.conflicts:
        text += "; found " + ", ".join(f"{kind} {count:,}" for kind, count in column.conflicts.items())
    return one_line(text).replace("${", "$${").replace("\\", "/")


def _with_comment(line: str, why: str) -> str:
    return f"{line}  # {one_line(why)}" if why else line


def _comment(text: str, indent: str) -> str:
    return f"{indent}# {one_line(text)}"


def _scalar(text: str) -> str:
    """Variables are escaped."""
    text = text.replace("${", "$${")
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else json.dumps(text, ensure_ascii=False)


def _flow(value: Any) -> str:
    match value:
        case str():
            return json.dumps(value.replace("${", "$${"), ensure_ascii=False)
        case Mapping():
            return "{" + ", ".join(f"{_scalar(name)}: {_flow_plain(held)}" for name, held in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_flow, value)) + "]"
    return json.dumps(value)


def _flow_plain(value: Any) -> str:
    return _scalar(value) if isinstance(value, str) else _flow(value)
