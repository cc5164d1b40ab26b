"""`blizzard schema-history`: how the schema of each table has changed, and what has brought it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from blizzard.cli.options import File
from blizzard.cli.times import shown
from blizzard.config.load import load_config
from blizzard.config.model import Config, Pipeline
from blizzard.environment import variables
from blizzard.errors import ConfigError
from blizzard.log import one_line
from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_history import CONFIGURATION, INFERRED, HistoryEntry, HistoryField, table_history
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings

NO_TABLE = "there is no table yet; the first run that finds a file or message makes it"
CHANGE_CHARS = 60
"""Of a change, as people see it: a new struct may have many fields."""


def command(
    file: File,
    *,
    pipeline: Annotated[str | None, typer.Option(help="Only the table of this pipeline.")] = None,
    source: Annotated[str | None, typer.Option(help="Only changes that this source has brought.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the history as JSON, for programs.")] = False,
) -> None:
    """Show each change of a table's schema: version, time, what changed, and which source, file and record brought it.

    Only reads the table's log, as far back as it goes, and the records of changes beside the table. Exit code 1: the
    log or a record cannot be read.
    """
    environ = variables()
    config = load_config(file, environ)
    _check_names(config, pipeline, source)
    settings = S3Settings.from_environment(environ)
    histories = [
        _history(config, one, source, settings)
        for one in config.pipelines.values()
        if pipeline in (None, one.name) and (source is None or source in one.sources)
    ]
    if as_json:
        typer.echo(json.dumps([history.as_document() for history in histories], indent=2))
        return
    for history in histories:
        _print(history)


@dataclass(frozen=True, slots=True)
class _History:
    """Of the table of one pipeline. `is_empty`: whether nothing is known of it, whoever has brought it."""

    pipeline: str
    table_uri: str
    changes: Sequence[HistoryEntry]
    is_empty: bool

    def as_document(self) -> dict[str, Any]:
        changes = [entry.as_document() for entry in self.changes]
        return {"pipeline": self.pipeline, "table_uri": self.table_uri, "changes": changes}


def _history(config: Config, wanted: Pipeline, source: str | None, settings: S3Settings) -> _History:
    """Other pipelines may write to the same table."""
    identities = [
        SourceIdentity(one.name, name, found.state_prefix)
        for one in config.pipelines.values()
        if one.table_uri == wanted.table_uri
        for name, found in one.sources.items()
    ]
    entries = table_history(open_store(wanted.table_uri, settings, may_be_missing=True), identities)
    source_id = None if source is None else wanted.sources[source].id
    changes = [entry for entry in entries if source_id in (None, entry.source)]
    return _History(wanted.name, wanted.table_uri, changes, not entries)


def _check_names(config: Config, pipeline: str | None, source: str | None) -> None:
    if pipeline is not None and pipeline not in config.pipelines:
        known = ", ".join(config.pipelines)
        raise ConfigError([f"--pipeline {pipeline}: there is no such pipeline; expected one of {known}"])
    sources = [name for one in config.pipelines.values() if pipeline in (None, one.name) for name in one.sources]
    if source is not None and source not in sources:
        raise ConfigError([f"--source {source}: there is no such source; expected one of {', '.join(sources)}"])


def _print(history: _History) -> None:
    console, title = Console(highlight=False), Text(f"{history.pipeline}  {history.table_uri}", style="bold")
    console.print(title, soft_wrap=True)
    if not history.changes:
        console.print(NO_TABLE if history.is_empty else "of this source no change of the schema is known")
        return
    table = Table(box=None)
    for name in ("version", "time (UTC)", "change", "brought by"):
        table.add_column(name, overflow="fold")
    for entry in history.changes:
        rows = [*_rows(entry)] or [("the log does not have the schema before any more", _who(entry))]
        for number, row in enumerate(rows):
            first = (_version(entry), _time(entry.ts)) if number == 0 else ("", "")
            table.add_row(*(Text(one_line(cell)) for cell in (*first, *row)))
    console.print(table)


def _rows(entry: HistoryEntry) -> Iterator[tuple[str, str]]:
    for field in entry.fields or ():
        change = str(field)
        yield change if len(change) <= CHANGE_CHARS else f"{change[: CHANGE_CHARS - 1]}…", _by(entry, field)


def _by(entry: HistoryEntry, field: HistoryField) -> str:
    if field.origin == CONFIGURATION:
        return f"{entry.source}: its configuration"
    if field.origin == INFERRED:
        return f"{entry.source}: inferred from {field.records:,} records, first of {field.file}"
    if field.file is None:
        return _who(entry)
    return f"{entry.source}: {field.file}{'' if field.record is None else f', record {field.record}'}"


def _who(entry: HistoryEntry) -> str:
    """Of a change that is not of a known source, what its commit calls itself."""
    if entry.source is not None:
        return entry.source
    return "unknown" if entry.operation is None else f"another writer: {entry.operation}"


def _version(entry: HistoryEntry) -> str:
    return "?" if entry.version is None else str(entry.version)


def _time(ts: float | None) -> str:
    return "?" if ts is None else shown(ts)
