"""`blizzard plan`: what the next runs would read, commit and cost."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from blizzard.audit.plan import Backlog, History, backlog_of, history_of, lives_of
from blizzard.audit.source import AuditedSource, audited_source
from blizzard.cli.options import AsJson, File, Pipelines, Sources
from blizzard.cli.plan_topics import EMPTY_TOPIC_PLAN, TopicPlan, topic_plan
from blizzard.cli.selection import refuse_options_of_files, selected
from blizzard.cli.source_status import run_status
from blizzard.cli.steps import Steps, steps
from blizzard.cli.times import optional_point_in_time, shown
from blizzard.config.load import load_config
from blizzard.config.model import Pipeline, Source
from blizzard.dispatch.run_records import Phase
from blizzard.environment import variables
from blizzard.errors import BlizzardError, ConfigError
from blizzard.log import one_line
from blizzard.prices.backlog import Estimate, Work, bill, commits_bill, estimate
from blizzard.prices.price_list import FILE, Item, PriceList, read_prices
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings

STEP = "looking for files"
LOCAL_START_SECS = 1.0


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """`is_new`: nothing of the source is ingested yet, so all of it is a backfill. `problem`: why the next run would
    stop; None: it would not."""

    source: str
    is_new: bool
    backlog: Backlog
    history: History
    problem: str | None = None

    @property
    def work(self) -> Work:
        backlog = self.backlog
        if self.problem is not None:
            return Work()
        listed = backlog.listed if backlog.files > backlog.announced else 0
        return Work(backlog.files, backlog.bytes, backlog.commits, listed)

    @property
    def begins(self) -> str:
        return "all of it is read"

    def as_document(self) -> dict[str, Any]:
        backlog, history = self.backlog, self.history
        return {
            "kind": "files",
            "source": self.source,
            "is_new": self.is_new,
            **asdict(backlog),
            "rows_expected": history.expected(backlog.bytes, history.rows),
            "rejected_expected": history.expected(backlog.bytes, history.rejected),
            "expected_from_commits": history.commits,
            "problem": self.problem,
        }


@dataclass(frozen=True, slots=True)
class FailedPlan:
    """In place of the plan of a source that could not be looked at. `problem`: why. `empty`: the document of a plan of
    its kind."""

    source: str
    problem: str
    empty: Mapping[str, Any]

    @property
    def work(self) -> Work:
        return Work()

    def as_document(self) -> dict[str, Any]:
        """What was not found out is null."""
        known = {"kind": self.empty["kind"], "source": self.source, "problem": self.problem}
        return dict.fromkeys(self.empty) | known

    def lines(self) -> Iterator[str]:
        yield f"  problem     {self.problem}"


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """`costs`: None for what is local, which costs nothing. `problem`: why the dispatcher starts no run, or why nobody
    knows whether it does."""

    pipeline: str
    table_uri: str
    sources: Sequence[SourcePlan | TopicPlan | FailedPlan]
    estimate: Estimate
    costs: Sequence[Item] | None
    prices: PriceList
    problem: str | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether the next run would not start, or stop."""
        return self.problem is not None or any(source.problem for source in self.sources)

    @property
    def dollars(self) -> float | None:
        return None if self.costs is None else round(sum(item.quantity * item.price for item in self.costs), 4)

    def as_document(self) -> dict[str, Any]:
        costs = None
        if self.costs is not None:
            costs = [{**asdict(item), "dollars": item.quantity * item.price} for item in self.costs]
        return {
            "pipeline": self.pipeline,
            "table_uri": self.table_uri,
            "runs": self.estimate.runs,
            "minutes": round(self.estimate.secs / 60, 2),
            "dollars": self.dollars,
            "costs": costs,
            "prices": {"region": self.prices.region, "date": self.prices.date},
            "problem": self.problem,
            "sources": [source.as_document() for source in self.sources],
        }


def command(
    file: File,
    *,
    pipeline: Pipelines = None,
    source: Sources = None,
    since: Annotated[
        str | None, typer.Option(help="Only files modified since: a date, a time, or an age such as 12h.")
    ] = None,
    prices: Annotated[
        Path, typer.Option(help="A price list, such as of another region. Default: us-east-1.", metavar="FILE")
    ] = FILE,
    as_json: AsJson = False,
) -> None:
    """Show what the next runs would read, commit and cost. Only reads: nothing is announced or ingested.

    Exit code 0: done. 1: a source cannot be listed, its brokers do not answer, its state cannot be read, or its next
    run would stop, or is not started. 2: the input is wrong.
    """
    environ, now_ts = variables(), time.time()
    chosen = selected(load_config(file, environ), pipeline, source)
    refuse_options_of_files(chosen, {"--since": since})
    since_ts = optional_point_in_time(since, "--since", now_ts)
    known, settings = _prices(prices), S3Settings.from_environment(environ)
    with steps(visible=not as_json) as show:
        plans = [
            _pipeline_plan([*some], settings, known, show, now_ts=now_ts, since_ts=since_ts)
            for _, some in groupby(chosen, key=lambda each: each[0].name)
        ]
    if as_json:
        typer.echo(json.dumps([plan.as_document() for plan in plans], indent=2))
    else:
        for plan in plans:
            _print(plan)
    raise typer.Exit(1 if any(plan.is_stopped for plan in plans) else 0)


def _prices(file: Path) -> PriceList:
    try:
        return read_prices(file)
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise ConfigError([f"--prices {file}: expected a price list like {FILE.name}, found {what}"]) from error


def _pipeline_plan(
    chosen: Sequence[tuple[Pipeline, Source]],
    settings: S3Settings,
    prices: PriceList,
    show: Steps,
    *,
    now_ts: float,
    since_ts: float | None,
) -> PipelinePlan:
    pipeline = chosen[0][0]
    found = [_answer(*each, settings, show, now_ts=now_ts, since_ts=since_ts) for each in chosen]
    works = [each.work for each in found]
    work = Work(*(sum(numbers) for numbers in zip(*map(astuple, works), strict=True)))
    on_aws = any((source.uri if source.kafka is None else pipeline.table_uri).startswith("s3") for _, source in chosen)
    takes = estimate(work) if on_aws else estimate(work, cores=_cores(), from_s3=False, start_secs=LOCAL_START_SECS)
    if on_aws:
        costs: Sequence[Item] | None = bill(work, takes.secs, prices)
    else:
        costs = commits_bill(work, prices) if pipeline.table_uri.startswith("s3") else None
    problem = _no_run(pipeline, settings)
    return PipelinePlan(pipeline.name, pipeline.table_uri, found, takes, costs, prices, problem)


def _answer(
    pipeline: Pipeline, source: Source, settings: S3Settings, show: Steps, *, now_ts: float, since_ts: float | None
) -> SourcePlan | TopicPlan | FailedPlan:
    """Of one source, whatever becomes of the others. Raises ConfigError."""
    try:
        if source.kafka is not None:
            return topic_plan(pipeline, source, source.kafka, settings)
        audited = audited_source(pipeline, source, settings)
        return _source_plan(source, audited, show, now_ts=now_ts, since_ts=since_ts)
    except ConfigError:
        raise
    except BlizzardError as error:
        empty = SourcePlan("", False, Backlog(), History()) if source.kafka is None else EMPTY_TOPIC_PLAN
        return FailedPlan(source.id, str(error), empty.as_document())


def _no_run(pipeline: Pipeline, settings: S3Settings) -> str | None:
    try:
        latest, problem = run_status(open_store(pipeline.table_uri, settings, may_be_missing=True), pipeline.name)
    except ConfigError:
        raise
    except BlizzardError as error:
        return str(error)
    if latest is None or latest.phase != Phase.OPEN:
        return problem
    return (
        f"the circuit is open after {latest.failures:,} failures ({latest.reason}), so that the dispatcher starts no "
        "run: docs/runbook.md#the-circuit-is-open; then `blizzard resume`"
    )


def _source_plan(
    source: Source, audited: AuditedSource, show: Steps, *, now_ts: float, since_ts: float | None
) -> SourcePlan:
    lives = lives_of(audited, now_ts, lambda count: show(STEP, count, 0))
    backlog = backlog_of(
        lives,
        interval_files=source.checkpoint.interval_files,
        interval_bytes=source.checkpoint.interval_bytes,
        since_ts=since_ts,
    )
    checkpoint = lives.snapshot.checkpoint
    problem = lives.snapshot.stops_runs
    is_new = checkpoint.sequence < 0 and problem is None
    return SourcePlan(source.id, is_new, backlog, history_of(audited, checkpoint), problem)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _print(plan: PipelinePlan) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(plan.pipeline, style="bold", markup=False)
    for line in lines_of(plan):
        console.print(one_line(line), markup=False)


def lines_of(plan: PipelinePlan) -> Iterator[str]:
    for source in plan.sources:
        begins = "" if isinstance(source, FailedPlan) or not source.is_new else f" (new: {source.begins})"
        yield f" {source.source}{begins}"
        yield from _source(source) if isinstance(source, SourcePlan) else source.lines()
    if plan.problem is not None:
        yield f" no run       {plan.problem}"
    if not plan.estimate.runs:
        if not plan.is_stopped:
            yield " nothing to do"
        return
    yield f" takes        about {_duration(plan.estimate.secs)} in {plan.estimate.runs:,} runs"
    if plan.dollars is None or plan.costs is None:
        return
    yield f" costs        about {plan.dollars:,.4f} US dollars ({plan.prices.region}, {plan.prices.date})"
    for item in plan.costs:
        yield f"   {item.quantity * item.price:,.4f}  {item.what}: {item.quantity:,.2f}"


def _duration(secs: float) -> str:
    return f"{secs:,.0f} seconds" if secs < 120 else f"{secs / 60:,.0f} minutes"


def _source(source: SourcePlan) -> Iterator[str]:
    backlog, history = source.backlog, source.history
    yield f"  reads       {backlog.files:,} files, {backlog.bytes:,} bytes; {backlog.announced:,} are announced already"
    if backlog.files:
        yield f"  modified    {shown(backlog.oldest_ts)} to {shown(backlog.newest_ts)}"
        yield f"  commits     {backlog.commits:,}"
        rows = history.expected(backlog.bytes, history.rows)
        known = f"of the newest {history.commits:,} commits" if rows is not None else "nothing is ingested yet"
        yield f"  rows        {'unknown' if rows is None else f'about {rows:,}'} ({known})"
    if backlog.skipped:
        yield f"  leaves out  {backlog.skipped:,} files in folders before `lookback`"
    if backlog.missing:
        yield f"  misses      {backlog.missing:,} files, which nothing announces: see `blizzard audit`"
    if source.problem is not None:
        yield f"  would stop  {source.problem}"
