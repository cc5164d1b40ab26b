"""`blizzard audit`: every object of a source accounted for, and every row."""

import json
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from blizzard.audit.audit import Audit
from blizzard.audit.notices import NOTHING_THERE
from blizzard.audit.repair import announce, refused_without_letter
from blizzard.audit.report import AuditReport, FailedAudit, SampleAudit, Verdict
from blizzard.audit.sample import Sample, chosen, read_again
from blizzard.audit.source import AuditedSource, audited_source
from blizzard.audit.topic_report import TopicAuditReport
from blizzard.cli.audit_text import show
from blizzard.cli.audit_topics import audit_of_topics, show_topics
from blizzard.cli.options import AsJson, File, Pipelines, Sources
from blizzard.cli.selection import prefix_of_folder, refuse_options_of_files, selected
from blizzard.cli.steps import Steps, steps
from blizzard.config.load import load_config
from blizzard.config.model import Config, Pipeline, Source
from blizzard.environment import variables
from blizzard.errors import BlizzardError, ConfigError
from blizzard.processes import ProcessEnded, ReadingProcesses
from blizzard.storage.s3_connection import S3Settings

Answer = AuditReport | TopicAuditReport | FailedAudit


def command(
    file: File,
    *,
    pipeline: Pipelines = None,
    source: Sources = None,
    partition: Annotated[
        str | None, typer.Option(help="Only files in this folder of the source, and below it.", metavar="FOLDER")
    ] = None,
    sample: Annotated[
        int, typer.Option(help="Read so many files again, and compare every value with the table.", metavar="N", min=0)
    ] = 0,
    repair: Annotated[
        bool, typer.Option("--repair", help="Announce the missing files again; the next run ingests them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare every object of the sources with the table, the dead letters and the rules; of topics, every message.
    Writes only with --repair.

    Exit code 0: nothing is missing, doubled, changed, forged or lost. 1: something is, and named, or a sample could not
    be made, or a source not be audited. 2: wrong input.
    """
    wish = Wish(partition, prefix_of_folder(partition), sample, repair)
    reports = _reports(file, wish, pipeline, source, visible=not as_json)
    _refuse_nothing(reports)
    if as_json:
        typer.echo(json.dumps([report.as_document() for report in reports], indent=2))
    else:
        show_all(reports)
    raise typer.Exit(1 if any(map(_is_failure, reports)) else 0)


def _is_failure(report: Answer) -> bool:
    """Whether the answer is bad, or a part of it that was asked for is lacking."""
    sample = report.sample if isinstance(report, AuditReport) else None
    return report.verdict is Verdict.BAD or (sample is not None and sample.problem is not None)


def _reports(
    file: str, wish: "Wish", pipelines: list[str] | None, sources: list[str] | None, *, visible: bool
) -> list[Answer]:
    """Of each source. `visible`: whether progress is shown."""
    environ = variables()
    config = load_config(file, environ)
    wanted = selected(config, pipelines, sources)
    refuse_options_of_files(wanted, {"--partition": wish.partition, "--sample": wish.sample, "--repair": wish.repair})
    settings = S3Settings.from_environment(environ)
    processes = ReadingProcesses(len(os.sched_getaffinity(0)))
    try:
        with steps(visible=visible) as shown:
            return [
                _answer(*each, partial(_report, config, *each, settings, wish, processes, shown)) for each in wanted
            ]
    finally:
        processes.close()


def _refuse_nothing(reports: Sequence[Answer]) -> None:
    """Raises ConfigError if none of the sources has what was asked for: nothing was compared."""
    nothing = [notice.text for report in reports for notice in report.notices if notice.kind == NOTHING_THERE]
    if nothing and len(nothing) == len(reports) and all(report.verdict is not Verdict.BAD for report in reports):
        raise ConfigError([*dict.fromkeys(nothing)])


def show_all(reports: Sequence[Answer]) -> None:
    for report in reports:
        if isinstance(report, AuditReport | FailedAudit):
            show(report)
        else:
            show_topics(report)


def _answer(pipeline: Pipeline, source: Source, audit: Callable[[], Answer]) -> Answer:
    """That of the `audit` of this source, whatever becomes of the others. Raises ConfigError."""
    try:
        return audit()
    except ConfigError:
        raise
    except ProcessEnded as error:
        problem = f"{error}. If it happens again, the machine is probably out of memory."
    except BlizzardError as error:
        problem = str(error)
    kind = AuditReport if source.kafka is None else TopicAuditReport
    return FailedAudit(source.id, pipeline.table_uri, problem, [field.name for field in fields(kind)])


def _report(
    config: Config,
    pipeline: Pipeline,
    source: Source,
    settings: S3Settings,
    wish: "Wish",
    processes: ReadingProcesses,
    shown: Steps,
) -> AuditReport | TopicAuditReport:
    known = config.sources_of(pipeline.table_uri)
    if source.kafka is not None:
        now_ts = time.time()
        return audit_of_topics(pipeline, source, source.kafka, settings, known, clock_ts=now_ts, shown=shown)
    return _audit(config, audited_source(pipeline, source, settings), known, wish, processes, shown)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the options ask for. `prefix`: of the paths that are audited."""

    partition: str | None
    prefix: str
    sample: int
    repair: bool


def _audit(
    config: Config,
    source: AuditedSource,
    known: frozenset[str],
    wish: Wish,
    processes: ReadingProcesses,
    shown: Steps,
) -> AuditReport:
    """`known`: the sources of its table."""
    seed, sample, repaired = secrets.token_hex(8), None, None
    with tempfile.TemporaryDirectory(prefix="blizzard-audit-") as folder:
        audit = Audit(source, processes, Path(folder), time.time, wish.prefix, wish.sample, seed, known, progress=shown)
        audit.run()
    if wish.sample:
        sample = _sample(audit, config, wish.sample, shown)
    if wish.repair:
        now_ts = time.time()
        files = [*audit.tally.found.get("missing", []), *refused_without_letter(source, audit.tally, now_ts)]
        repaired = announce(source, audit.snapshot.checkpoint, files, writer_id=seed, now_ts=now_ts)
    return audit.report(sample, repaired)


def _sample(audit: Audit, config: Config, count: int, shown: Steps) -> SampleAudit:
    if audit.active.problem is not None:
        return SampleAudit(audit.seed, problem=audit.active.problem)
    if audit.snapshot.version is None:  # no table, and so no file
        return SampleAudit(audit.seed)
    files = chosen(audit.tally.sample, count)
    shown(f"reading {len(files):,} files again", 0, 0)
    with tempfile.TemporaryDirectory(prefix="blizzard-sample-") as folder:
        return read_again(Sample(audit.source, audit.snapshot.version, files, audit.seed), config, Path(folder))
