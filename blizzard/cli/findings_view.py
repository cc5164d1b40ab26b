"""What `blizzard init` found, as tables for a terminal."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from blizzard.infer.findings import ColumnFound, Findings, PipelineFound, SourceFound
from blizzard.log import one_line

TYPE_CHARS = 60


def show(found: Findings, *, to_stderr: bool = False) -> None:
    console = Console(stderr=to_stderr, highlight=False, soft_wrap=True)
    for pipeline, source in found.sources():
        for line in _lines(pipeline, source):
            console.print(Text(one_line(line)))
        if source.columns:
            Console(stderr=to_stderr, highlight=False).print(_table(source))
    for one in found.left_out:
        console.print(
            Text(one_line(f"not read: {one.files:,} files, such as {one.example}: {one.why}"), style="yellow")
        )


def _lines(pipeline: PipelineFound, source: SourceFound) -> Iterator[str]:
    how = " and ".join(dict.fromkeys(rule.format for rule in source.rules))
    looked = f"{source.records:,} records of {source.looked_at:,} files were looked at"
    yield f"{pipeline.name}:{source.name}: {source.files:,} files of {how} in {source.uri}; {looked}"
    yield from (f"  {note}" for note in (*source.notes, *(note for rule in source.rules for note in rule.notes)))
    yield from (f"  no column for {field.path}: {field.why}" for field in source.left_out)
    if source.partition_columns:
        yield "  from folders: " + ", ".join(f"{name} {kind}" for name, kind in source.partition_columns.items())


def _table(source: SourceFound) -> Table:
    table = Table("column", "type", "seen in", "examples", "conflicts")
    for column in source.columns:
        table.add_row(*(Text(one_line(cell)) for cell in _row(column)))
    return table


def _row(column: ColumnFound) -> tuple[str, ...]:
    kind = column.type if len(column.type) <= TYPE_CHARS else f"{column.type[: TYPE_CHARS - 1]}…"
    seen = f"{column.seen:,} of {column.records:,}" if column.records else ""
    conflicts = ", ".join(f"{name} {count:,}" for name, count in column.conflicts.items())
    return column.name, kind, seen, ", ".join(column.examples), conflicts
