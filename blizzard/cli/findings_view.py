"""What `blizzard init` found, as tables for a terminal."""

import json
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from blizzard.infer.findings import ColumnFound, Findings, PipelineFound, RuleFound, SourceFound
from blizzard.infer.pace import DEFAULT_DELAY_SECS
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

TYPE_CHARS = 60
NAMES = 20
"""Of columns in one cell."""

Setting = tuple[str, str, str]
"""Its name, what was found, and what says so."""


def show(found: Findings, *, to_stderr: bool = False) -> None:
    console = Console(stderr=to_stderr, highlight=False, soft_wrap=True)
    tables = Console(stderr=to_stderr, highlight=False)
    for pipeline, source in found.sources():
        for line in _lines(pipeline, source):
            console.print(Text(one_line(line)))
        tables.print(_of_rows(("setting", "found", "because"), _settings(pipeline, source)))
        if source.columns:
            rows = map(_column, source.columns)
            tables.print(_of_rows(("column", "type", "seen in", "examples", "conflicts"), rows))
    for one in found.left_out:
        console.print(
            Text(one_line(f"not read: {counted(one.files, 'file')}, such as {one.example}: {one.why}"), style="yellow")
        )


def _of_rows(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Table:
    table = Table()
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    return table


def _lines(pipeline: PipelineFound, source: SourceFound) -> Iterator[str]:
    how = " and ".join(dict.fromkeys(rule.format for rule in source.rules))
    looked = f"{counted(source.records, 'record')} of {counted(source.looked_at, 'file')} were looked at"
    yield f"{pipeline.name}:{source.name}: {counted(source.files, 'file')} of {how} in {source.uri}; {looked}"
    if pipeline.exists:
        yield f"  {EXISTS}"
    yield from (f"  {note}" for note in (*source.notes, *(note for rule in source.rules for note in rule.notes)))
    yield from (f"  no column for {field.path}: {field.why}" for field in source.left_out)


def _settings(pipeline: PipelineFound, source: SourceFound) -> Iterator[Setting]:
    yield "pattern", source.pattern, f"{counted(source.files, 'file')}, {source.bytes:,} bytes"
    for rule in source.rules:
        yield from _reading(rule, f" of {rule.pattern}" if len(source.rules) > 1 else "")
    if source.always_there:
        names = listed(source.always_there, NAMES)
        yield "NOT NULL", "left to you", f"all of the {counted(source.records, 'record')} have {names}"
    if source.spellings:
        yield "keys", "ignore_case", by_spellings(source)
    if source.fields:
        shown = listed([f"{name}: {key}" for name, key in source.fields.items()], NAMES)
        yield "fields", shown, OWN_NAMES
    if source.partition_columns:
        columns = ", ".join(f"{name} {kind}" for name, kind in source.partition_columns.items())
        yield "partition_columns", columns, FROM_FOLDERS
    if source.dated is not None:
        dated = f"{source.dated.prefix_template}, lookback {source.dated.lookback}"
        yield "partition_filter", dated, REACHES_BACK
    yield "settle_delay_secs", _or_default(source.settle_delay_secs, f"{DEFAULT_DELAY_SECS:g}"), by_times(source)
    interval = {"interval_files": source.interval_files, "interval_bytes": source.interval_bytes}
    chosen = ", ".join(f"{name} {value:,}" for name, value in interval.items() if value is not None)
    yield "checkpoint", chosen or "the default", source.interval_why
    yield from _layout(pipeline)


def _reading(rule: RuleFound, where: str) -> Iterator[Setting]:
    yield f"format{where}", rule.format, by_content(rule)
    compression = "auto, by extension" if rule.compression == "auto" else rule.compression
    yield f"compression{where}", compression, by_compression(rule)
    for name, value in rule.options.items():
        yield f"{rule.format}.{name}{where}", _shown(value), rule.why.get(name, "")


def _layout(pipeline: PipelineFound) -> Iterator[Setting]:
    why = "; ".join(pipeline.notes)
    if pipeline.cluster_by:
        yield "cluster_by", f"perhaps {', '.join(pipeline.cluster_by)}", f"{why}; all records have this time"
    else:
        yield "partition_by", ", ".join(pipeline.partition_by) or "none", why.removeprefix("no partition_by: ")


def _shown(value: object) -> str:
    return value if isinstance(value, str) and value.strip() else json.dumps(value, ensure_ascii=False)


def _or_default(value: float | None, default: str) -> str:
    return f"{default}, the default" if value is None else f"{value:g}"


def _column(column: ColumnFound) -> tuple[str, ...]:
    kind = column.type if len(column.type) <= TYPE_CHARS else f"{column.type[: TYPE_CHARS - 1]}…"
    seen = f"{column.seen:,} of {column.records:,}" if column.records else "the files' schema"
    conflicts = ", ".join(f"{name} {count:,}" for name, count in column.conflicts.items())
    return column.name, kind, seen, ", ".join(column.examples), conflicts
