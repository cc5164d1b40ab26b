"""The composition root of the sweeper function, and one round over the sources that are due."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from blizzard.config.published import PublishedConfig, PublishedSource, PublishedTopics
from blizzard.dispatch.wake import Waker
from blizzard.errors import BlizzardError, ConfigError
from blizzard.state.identity import SourceIdentity
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from blizzard.sweep.commit_counts import CommitCounts
from blizzard.sweep.report import SweepKind, SweepReport
from blizzard.sweep.reports import SweepReports
from blizzard.sweep.source_sweep import Claim, SourceSweep, sweep_rules
from blizzard.sweep.sweeper import OutOfTime
from blizzard.sweep.topic_commits import TopicCommits
from functions.runtime import FunctionLog, ReloadingConfig, Runtime
from functions.sweeper.catalog import TableCatalog
from functions.sweeper.schedule import DueSweep, due_sweeps, is_claimed

MAX_BACKOFF_SECS = 5.0
"""A round has only minutes. If storage throttles for longer, the next round sweeps the source."""

CLAIM_AFTER_SECS = 30.0
"""The next round starts a minute after this one at the earliest. A sweep that is still running after half of that
writes a claim. Nearly all sweeps are shorter and do not need this PUT."""
CLAIM_MARGIN_SECS = 10.0
"""Time after a sweep's deadline to append the listed files and write the report."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Built from one version of the configuration; by source id. `topics`: of the sources of topics."""

    sources: Mapping[str, PublishedSource]
    sweeps: Mapping[str, SourceSweep]
    topics: Mapping[str, tuple[PublishedTopics, TopicCommits]]


@dataclass(slots=True)
class RoundCounts:
    """Counts of one invocation."""

    sweeps: int = 0
    files_listed: int = 0
    files_found: int = 0
    files_missed: int = 0
    """Files whose event is overdue: `SweepReport.unannounced`."""
    failed: int = 0
    incomplete: int = 0
    """Sweeps that ran out of time, and due sweeps that did not begin."""
    wakes_failed: int = 0
    tables_not_registered: int = 0

    def count(self, report: SweepReport) -> None:
        self.sweeps += 1
        self.files_listed += report.listed
        self.files_found += report.missed
        self.files_missed += report.unannounced
        self.incomplete += not report.complete


class SweepRound:
    """Sweeps the sources that are due. A failure is logged and counted, and does not stop other sweeps. `publish` gets
    what was committed in each source since its last sweep. At the end, tables with a commit are registered in
    `catalog`, if there is one."""

    def __init__(
        self,
        config: ReloadingConfig[Setup],
        waker: Waker,
        log: FunctionLog,
        clock: Callable[[], float],
        publish: Callable[[CommitCounts], None],
        catalog: TableCatalog | None = None,
    ) -> None:
        self._catalog = catalog
        self._committed: dict[str, str] = {}
        self._config = config
        self._publish = publish
        self._waker = waker
        self._log = log
        self._clock = clock

    def run(self, *, deadline_ts: float) -> RoundCounts:
        """Raises BlizzardError only when there is no usable configuration yet."""
        done, setup = RoundCounts(), self._config.current(self._clock())
        reports, started_ts = self._reports(setup, done), self._clock()
        due = due_sweeps(setup.sources.values(), reports, started_ts)
        others_active = any(is_claimed(known, started_ts) for known in reports.values())
        claim_from_ts = started_ts if others_active else started_ts + CLAIM_AFTER_SECS
        for number, sweep in enumerate(due):
            now_ts = self._clock()
            if now_ts >= deadline_ts:
                self._postpone(due[number:], done)
                break
            until_ts = now_ts + (deadline_ts - now_ts) / (len(due) - number)
            self._sweep(setup, sweep, until_ts, Claim(claim_from_ts, until_ts + CLAIM_MARGIN_SECS), done)
        self._count_topics(setup, deadline_ts, done)
        if self._catalog is not None:
            done.tables_not_registered = self._catalog.register(self._committed)
        return done

    def _count_topics(self, setup: Setup, deadline_ts: float, done: RoundCounts) -> None:
        """What no time is left for, the next round counts."""
        for source_id, (source, commits) in setup.topics.items():
            if self._clock() >= deadline_ts:
                return
            try:
                counts, reports, is_new = commits.count()
                if reports.counted is not None and reports.counted >= 0:
                    self._committed[source.pipeline] = source.table_uri
                if is_new:
                    self._publish(counts)  # before the report says so, as for files
                    commits.write(reports)
            except BlizzardError as error:
                self._failed(source_id, "report", error, done)

    def _reports(self, setup: Setup, done: RoundCounts) -> Mapping[str, SweepReports]:
        """By source id, without sources whose reports cannot be read."""
        found = {}
        for source_id, sweep in setup.sweeps.items():
            try:
                found[source_id] = sweep.reports()
            except BlizzardError as error:
                self._failed(source_id, "report", error, done)
        return found

    def _sweep(self, setup: Setup, due: DueSweep, deadline_ts: float, claim: Claim, done: RoundCounts) -> None:
        source = setup.sources[due.source_id]
        try:
            report = self._swept(source, setup.sweeps[due.source_id], due.kind, deadline_ts, claim)
        except OutOfTime as error:
            self._log.warning("sweep_put_off", source=due.source_id, kind=due.kind, reason=str(error))
            done.incomplete += 1
            return
        except BlizzardError as error:
            self._failed(due.source_id, due.kind, error, done)
            return
        if report is None:
            return
        done.count(report)
        if report.missed:
            done.wakes_failed += self._waker.wake([source.pipeline], now_ts=self._clock())

    def _swept(
        self, source: PublishedSource, sweep: SourceSweep, kind: SweepKind, deadline_ts: float, claim: Claim
    ) -> SweepReport | None:
        """None: another round has done this sweep, or claimed the source, since this round began."""
        before = sweep.reports()
        if kind not in [due.kind for due in due_sweeps([source], {source.id: before}, self._clock())]:
            return None
        counts, reports = sweep.count_commits(before)
        if reports.counted is not None and reports.counted >= 0:
            self._committed[source.pipeline] = source.table_uri
        # Before the report says that they are counted: who dies in between counts them twice, and none misses them.
        self._publish(counts)
        try:
            return sweep.sweep(kind, deadline_ts=deadline_ts, reports=reports, claim=claim)
        except BlizzardError:
            if reports.counted != before.counted:
                with suppress(BlizzardError):
                    sweep.write(reports)
            raise

    def _failed(self, source_id: str, kind: str, error: BlizzardError, done: RoundCounts) -> None:
        self._log.error("sweep_failed", source=source_id, kind=kind, error=str(error), error_kind=type(error).__name__)
        done.failed += 1

    def _postpone(self, due: Sequence[DueSweep], done: RoundCounts) -> None:
        done.incomplete += len(due)
        for sweep in due:
            self._log.warning("sweep_put_off", source=sweep.source_id, kind=sweep.kind, reason="no time was left")


def make_sweep_round(
    runtime: Runtime, clock: Callable[[], float], publish: Callable[[CommitCounts], None]
) -> SweepRound:
    """Raises ConfigError when a setting is missing or wrong. Reads nothing before the first round."""
    config = runtime.reloading_config(lambda published: make_setup(published, runtime, clock))
    return SweepRound(config, runtime.waker(), runtime.log, clock, publish, _catalog(runtime, clock))


def _catalog(runtime: Runtime, clock: Callable[[], float]) -> TableCatalog | None:
    database = runtime.environ.get("BLIZZARD_GLUE_DATABASE")
    if not database:
        return None
    return TableCatalog(database, lambda: runtime.client("glue", max_attempts=2), runtime.log, clock)


def make_setup(published: PublishedConfig, runtime: Runtime, clock: Callable[[], float]) -> Setup:
    sources = {source.id: source for source in published.sources()}
    sweeps = {source.id: _source_sweep(source, runtime, clock) for source in sources.values()}
    return Setup(sources, sweeps, {each.id: (each, _topic_commits(each, runtime)) for each in published.topics()})


def _topic_commits(source: PublishedTopics, runtime: Runtime) -> TopicCommits:
    identity = SourceIdentity(source.pipeline, source.name, source.state_prefix)
    settings = _settings(source, runtime)
    state = open_store(source.table_uri, settings, may_be_missing=True, log=runtime.log.warning)
    return TopicCommits(identity, state, runtime.log.warning)


def _settings(source: PublishedSource | PublishedTopics, runtime: Runtime) -> S3Settings:
    backoff_secs = min(source.max_backoff_secs, MAX_BACKOFF_SECS)
    return replace(runtime.settings, max_attempts=source.max_attempts, max_backoff_secs=backoff_secs)


def _source_sweep(source: PublishedSource, runtime: Runtime, clock: Callable[[], float]) -> SourceSweep:
    settings, log = _settings(source, runtime), runtime.log
    return SourceSweep(
        SourceIdentity(source.pipeline, source.name, source.state_prefix),
        files=open_store(source.uri, settings, log=log.warning),
        state=open_store(source.table_uri, settings, may_be_missing=True, log=log.warning),
        rules=sweep_rules(
            pattern=source.pattern,
            prefix_template=source.prefix_template,
            lookback=source.lookback,
            settle_delay_secs=source.settle_delay_secs,
            late_overlap_secs=source.late_overlap_secs,
            unordered_requests=source.unordered_requests,
            quiet_secs=source.quiet_secs,
            late_interval_secs=source.late_interval_secs,
        ),
        clock=clock,
        new_id=lambda: secrets.token_hex(8),
        log=log.info,
        inventory=None if source.inventory is None else open_store(source.inventory, settings, log=log.warning),
    )


def check_event(event: Mapping[str, Any]) -> None:
    """Raises ConfigError unless this is the event of the schedule."""
    if event.get("schedule") != "sweep":
        raise ConfigError(
            [f'the sweeper\'s event: expected {{"schedule": "sweep"}}, found {event!r:.200}; correct the schedule']
        )
