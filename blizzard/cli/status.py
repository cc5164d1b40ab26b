"""`blizzard status`: the position of each source."""

import json
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from blizzard.cli.options import File
from blizzard.cli.source_status import RunStatus, SourceStatus, source_status
from blizzard.config.load import load_config
from blizzard.config.model import Source
from blizzard.dispatch.backlog_size import backlog_rules
from blizzard.dispatch.run_records import Phase
from blizzard.environment import variables
from blizzard.state.batch import BatchRules
from blizzard.state.unknown_fields import UnknownFields
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from blizzard.sweep.unordered import UnorderedReport


def command(
    file: File,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as JSON, for programs.")] = False,
) -> None:
    """Show each source's watermark, backlog and last commit. Only reads the table's log and the source's state.

    Exit code 0: the state of every source can be read. 1: the state of a source cannot be read; the output says how it
    is repaired.
    """
    environ = variables()
    settings = S3Settings.from_environment(environ)
    statuses = [
        source_status(
            open_store(pipeline.table_uri, settings, may_be_missing=True),
            pipeline=pipeline.name,
            source=source.name,
            state_prefix=source.state_prefix,
            table_uri=pipeline.table_uri,
            now_ts=time.time(),
            rules=_rules(source),
        )
        for pipeline, source in load_config(file, environ).sources()
    ]
    if as_json:
        typer.echo(json.dumps([asdict(status) for status in statuses], indent=2))
    else:
        for status in statuses:
            _print(status)
    raise typer.Exit(1 if any(status.problem for status in statuses) else 0)


def _rules(source: Source) -> BatchRules:
    partition_filter = source.partition_filter
    return backlog_rules(
        prefix_template=partition_filter.prefix_template if partition_filter else None,
        late_overlap_secs=source.sweep.late_overlap_secs,
        on_overwrite=source.on_overwrite,
    )


def _print(status: SourceStatus) -> None:
    table = Table(title=status.source, title_justify="left", title_style="bold", show_header=False, box=None)
    for name, value in facts_of(status):
        table.add_row(name, value)
    Console(highlight=False).print(table)


def facts_of(status: SourceStatus) -> list[tuple[str, str]]:
    facts = [
        ("sequence", _or_none(status.sequence)),
        ("table version", _or_none(status.table_version)),
        ("watermark", f"{status.watermark or '-'} ({status.watermark_state})"),
        ("backlog", f"{status.backlog_files:,} files, {status.backlog_bytes:,} bytes"),
        ("tracked files", f"{status.tracked_files:,}"),
        ("dead letters", f"{status.dead_letter_files:,} files with letters"),
        ("last commit", _ago(status.last_commit_age_secs)),
    ]
    unknown = UnknownFields.from_document(status.unknown_fields)
    if unknown.fields:
        facts.append(("unknown fields", f"{unknown} (last commit)"))
    misfits = UnknownFields.from_document(status.misfits)
    if misfits.fields:
        facts.append(("misfits", f"{misfits} (last commit)"))
    if status.in_progress_files:
        facts.append(("in progress", f"{status.in_progress_files:,} files"))
    if status.closed_through:
        facts.append(("closed through", status.closed_through))
    if status.moved_to:
        facts.append(("moved to", status.moved_to))
    if status.unordered and status.unordered.partitions:
        facts.append(("in no order", _unordered(status.unordered)))
    if status.run:
        facts.append(("last run", _run(status.run)))
    return facts + ([("problem", status.problem)] if status.problem else [])


def _unordered(report: UnorderedReport) -> str:
    listed = f"the last sweep listed {report.listed:,} of them with {report.requests:,} requests"
    return f"{report.partitions:,} folders; {listed}"


def _run(run: RunStatus) -> str:
    text = f"{run.phase} {run.run_id or ''}".strip()
    if run.phase == Phase.OPEN:
        text = f"circuit open after {run.failures:,} failures; `blizzard resume` closes it"
    return f"{text} ({run.reason})" if run.reason else text


def _or_none(value: int | None) -> str:
    return "none yet" if value is None else f"{value:,}"


def _ago(secs: float | None) -> str:
    if secs is None:
        return "none yet"
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if secs >= 2 * size:
            return f"{secs / size:.0f} {unit} ago"
    return f"{secs:.0f} seconds ago"
