"""`blizzard status`: the position of each source."""

import json
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from blizzard.cli.options import File
from blizzard.cli.source_status import RunStatus, SourceStatus, source_status
from blizzard.cli.topic_status import TopicStatus, topic_status
from blizzard.config.load import load_config
from blizzard.config.model import Pipeline, Source
from blizzard.dispatch.backlog_size import backlog_rules
from blizzard.dispatch.run_records import Phase
from blizzard.environment import variables
from blizzard.log import one_line
from blizzard.state.batch import BatchRules
from blizzard.state.identity import SourceIdentity
from blizzard.state.unknown_fields import UnknownFields
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from blizzard.sweep.unordered import UnorderedReport

MOST_PARTITIONS = 10
"""That are shown to people."""


def command(
    file: File,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as JSON, for programs.")] = False,
) -> None:
    """Show each source's watermark, backlog and last commit. Only reads the table's log and the source's state; of a
    source that reads topics, also how far they have been written.

    Exit code 0: the state of every source can be read. 1: the state of a source cannot be read; the output says how it
    is repaired.
    """
    environ = variables()
    settings = S3Settings.from_environment(environ)
    statuses = [_status(pipeline, source, settings) for pipeline, source in load_config(file, environ).sources()]
    if as_json:
        typer.echo(json.dumps([asdict(status) for status in statuses], indent=2))
    else:
        for status in statuses:
            _print(status)
    raise typer.Exit(1 if any(status.problem for status in statuses) else 0)


def _status(pipeline: Pipeline, source: Source, settings: S3Settings) -> SourceStatus | TopicStatus:
    store = open_store(pipeline.table_uri, settings, may_be_missing=True)
    if source.kafka is not None:
        identity = SourceIdentity(pipeline.name, source.name, source.state_prefix)
        return topic_status(store, identity, source.kafka, table_uri=pipeline.table_uri, now_ts=time.time())
    return source_status(
        store,
        pipeline=pipeline.name,
        source=source.name,
        state_prefix=source.state_prefix,
        table_uri=pipeline.table_uri,
        now_ts=time.time(),
        rules=_rules(source),
    )


def _rules(source: Source) -> BatchRules:
    partition_filter = source.partition_filter
    return backlog_rules(
        prefix_template=partition_filter.prefix_template if partition_filter else None,
        late_overlap_secs=source.sweep.late_overlap_secs,
        on_overwrite=source.on_overwrite,
    )


def _print(status: SourceStatus | TopicStatus) -> None:
    table = Table(title=status.source, title_justify="left", title_style="bold", show_header=False, box=None)
    for name, value in facts_of(status) if isinstance(status, SourceStatus) else topic_facts(status):
        table.add_row(name, Text(one_line(value)))
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
    facts += _odd_fields(status)
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


def _odd_fields(status: SourceStatus | TopicStatus) -> list[tuple[str, str]]:
    found = {"unknown fields": status.unknown_fields, "misfits": status.misfits}
    fields = {name: UnknownFields.from_document(document) for name, document in found.items()}
    return [(name, f"{each} (last commit)") for name, each in fields.items() if each.fields]


def topic_facts(status: TopicStatus) -> list[tuple[str, str]]:
    facts = [
        ("sequence", _or_none(status.sequence)),
        ("table version", _or_none(status.table_version)),
        ("partitions", f"{len(status.partitions):,}"),
        ("lag", _lag(status)),
        ("dead letters", f"{status.dead_letter_files:,} partitions with letters"),
        ("last commit", _ago(status.last_commit_age_secs)),
    ]
    behind = sorted((one for one in status.partitions if one.lag), key=lambda one: -one.lag)
    facts += [
        (f"{one.topic}/{one.partition}", f"{one.lag:,} of {one.end_offset:,} messages wait")
        for one in behind[:MOST_PARTITIONS]
    ]
    if len(behind) > MOST_PARTITIONS:
        facts.append(("", f"and {len(behind) - MOST_PARTITIONS:,} more partitions; --json has all"))
    facts += _held_back(status)
    for one in status.gone:
        why = "the brokers do not have it" if one.is_named else "the configuration does not name it"
        facts.append(("not read on", f"{one.topic}, of which {one.partitions:,} partitions were read: {why}"))
    facts += _odd_fields(status)
    if status.run:
        facts.append(("last run", _run(status.run)))
    return facts + ([("problem", status.problem)] if status.problem else [])


def _held_back(status: TopicStatus) -> list[tuple[str, str]]:
    held = [one for one in status.partitions if one.held_back]
    if not held:
        return []
    secs = [one.held_back_secs for one in held if one.held_back_secs is not None]
    since = f"for {max(secs):,.0f} seconds" if secs else "it is not known since when"
    count = f"{sum(one.held_back for one in held):,} offsets of {len(held):,} partitions"
    return [("held back", f"{count} behind open transactions, {since}")]


def _lag(status: TopicStatus) -> str:
    if status.lag is None:
        return "unknown"
    if not status.lag:
        return "0 messages"
    known = [one.lag_secs for one in status.partitions if one.lag and one.lag_secs is not None]
    since = f", the first for {max(known):,.0f} seconds" if known else ""
    waiting = sum(1 for one in status.partitions if one.lag)
    if unknown := waiting - len(known):
        since += f"; it is not known since when those of {unknown:,} partitions wait"
    return f"{status.lag:,} messages{since}"


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
