"""Checks of a Delta table, by its log."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from urllib.parse import unquote

from blizzard.config.engine_name import EngineName
from blizzard.config.model import Pipeline
from blizzard.doctor.check import Check, Finding, ok, problem, skipped, warning
from blizzard.doctor.storage import SKEW_WARNING_SECS, clock_finding
from blizzard.doctor.table_log import LoggedCommit, TableLog, read_table_log
from blizzard.errors import BucketMissing
from blizzard.state.checkpoint import COMMITTER_APP_ID_PREFIX
from blizzard.state.delta_protocol import ABSOLUTE, READABLE_RETENTION, TXN_RETENTION, reasons_for_spark
from blizzard.state.identity import APP_ID_PREFIX, source_of_app_id
from blizzard.storage.base import ObjectStore
from blizzard.storage.heads import heads
from blizzard.storage.s3_connection import S3Settings
from blizzard.table.active_files import active_files
from blizzard.table.lost_txn import holds_rows

MAX_READER_VERSION, MAX_WRITER_VERSION = 3, 7
"""Of the Delta protocol that is known."""
LOG_RETENTION = "delta.logRetentionDuration"
MIN_RETENTION_SECS = 86_400.0
CHECKPOINT_INTERVAL, DEFAULT_INTERVAL = "delta.checkpointInterval", 10
MISSED_CHECKPOINTS = 20
"""So many times the interval without a Delta checkpoint, and nobody makes them any more."""
MAX_LOG_ENTRIES = 100_000
"""Twice what a commit a minute leaves in the 30 days that Delta keeps by default."""
LOOKED_AT_FILES, PARALLEL_HEADS = 1_000, 32
"""Data files that are asked for, spread over all of them, and how many of them at a time."""
SHOWN_FILES = 3
SMALL_FILES = 1_000
SMALL_FRACTION = 8
_UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_INTERVAL = re.compile(r"interval (\d+) ([a-z]+?)s?")


class ExaminedTable:
    """`pipelines`: those that write to it. `clock` gives Unix seconds."""

    def __init__(
        self,
        uri: str,
        store: ObjectStore,
        pipelines: Sequence[Pipeline],
        clock: Callable[[], float],
        settings: S3Settings,
    ) -> None:
        self.uri = uri
        self.store = store
        self.pipelines = pipelines
        self.clock = clock
        self.settings = settings

    @cached_property
    def found(self) -> TableLog | None:
        try:
            return read_table_log(self.store)
        except BucketMissing:
            return None

    @property
    def log(self) -> TableLog:
        """Only for checks that need `table.log`."""
        if self.found is None:
            raise ValueError(f"there is no table {self.uri}")
        return self.found

    @property
    def app_ids(self) -> Mapping[str, str]:
        """Each with its source."""
        sources = (source for pipeline in self.pipelines for source in pipeline.sources.values())
        return {f"{APP_ID_PREFIX}{source.id}": source.id for source in sources}


def _log(table: ExaminedTable) -> Finding:
    found = table.found
    if found is None:
        return skipped("there is no table yet; the first commit creates it")
    since = f"Delta checkpoint {found.checkpoint:,}" if found.checkpoint >= 0 else "the beginning"
    return ok(f"version {found.version:,}; every commit since {since} is there")


def _protocol(table: ExaminedTable) -> Finding:
    reader, writer = table.log.versions
    if reader > MAX_READER_VERSION or writer > MAX_WRITER_VERSION:
        return problem(
            f"reader version {reader} and writer version {writer}",
            expected=f"at most {MAX_READER_VERSION} and {MAX_WRITER_VERSION}, which Spark's Delta can write",
            advice="write to another table, or ask who upgraded this one: DESCRIBE HISTORY",
        )
    features = table.log.reader_features, table.log.writer_features
    reason = next(reasons_for_spark((reader, writer), *features, table.log.properties), None)
    local = [pipeline.name for pipeline in table.pipelines if not EngineName(pipeline.engine).has_spark]
    if reason and local:
        return problem(
            f"it is {reason}, and {', '.join(local)} has `engine: local`",
            expected="a table that the local engine can commit to",
            advice="set `engine: auto` or `engine: spark`; see docs/how-it-works.md#engines",
        )
    return ok(
        f"reader version {reader}, writer version {writer}" + (f"; only Spark commits to {reason}" if reason else "")
    )


def _partitioning(table: ExaminedTable) -> Finding:
    found = table.log.partition_by
    wrong = [pipeline.name for pipeline in table.pipelines if pipeline.partition_by != found]
    if not wrong:
        return ok(f"partitioned by {', '.join(found)}" if found else "not partitioned")
    return problem(
        f"the table is partitioned by {found}, {', '.join(wrong)} by {table.pipelines[0].partition_by}",
        expected="the same partition columns",
        advice="correct `partition_by`: a table's partition columns cannot be changed. Or write to another table",
    )


def _source_column(table: ExaminedTable) -> Finding:
    if "_source" in table.log.columns:
        return ok("the rows say which file they are from")
    return warning(
        "the table has no column _source",
        expected="a table that Blizzard made, or has taken over",
        advice="look whether `table_uri` is right. The next run adds the column, or takes the table over: "
        "docs/how-it-works.md#tables-of-the-first-blizzard",
    )


def _txns(table: ExaminedTable) -> Finding:
    known = table.log.txns.union(*(commit.app_ids for commit in table.log.newest))
    without = [source_id for app_id, source_id in table.app_ids.items() if app_id not in known]
    if not without:
        return ok("every source has its Txn")
    active = active_files(table.uri, table.log.version, table.settings)
    if active.problem is not None:
        return skipped(f"{', '.join(without)} have no Txn, and nobody knows whether they have rows: {active.problem}")
    lost = [source_id for source_id in without if holds_rows(table.store, active, source_id)]
    if not lost:
        return ok(f"{len(without):,} sources have no Txn, and no rows of them were found")
    return problem(
        f"the table has rows of {', '.join(lost)}, and no Txn that says which of their files are ingested, as after it "
        "was copied or rebuilt without its log: runs refuse it",
        expected="a Txn of each source that has rows",
        advice="`blizzard rebuild` makes Txn and state anew from the rows; see docs/runbook.md#a-table-without-its-txn",
    )


def _txn_retention(table: ExaminedTable) -> Finding:
    for name, value in table.log.properties.items():
        if name.lower() == TXN_RETENTION.lower():
            return problem(
                f"{name} = {value}: Delta forgets which files are ingested, and their rows would be doubled",
                expected="a table without this property",
                advice=f"ALTER TABLE delta.`{table.uri}` UNSET TBLPROPERTIES ('{name}'); if runs fail since then, see "
                "docs/runbook.md#a-table-without-its-txn",
            )
    return ok("Txns do not expire")


def _log_retention(table: ExaminedTable) -> Finding:
    value = table.log.properties.get(LOG_RETENTION)
    if value is None:
        return ok("30 days, Delta's default")
    fix = f"ALTER TABLE delta.`{table.uri}` SET TBLPROPERTIES ('{LOG_RETENTION}' = 'interval 30 days')"
    parts = _INTERVAL.fullmatch(value) if READABLE_RETENTION.fullmatch(value) else None
    if parts is None:
        return warning(f"{LOG_RETENTION} = {value}", expected="a form such as 'interval 30 days'", advice=fix)
    if int(parts[1]) * _UNITS.get(parts[2], 0) < MIN_RETENTION_SECS:
        return warning(
            f"{LOG_RETENTION} = {value}: after a pause of that length a source's state is no longer in the log, and is "
            "rebuilt from its copy or the rows",
            expected="a day or more",
            advice=fix,
        )
    return ok(f"{LOG_RETENTION} = {value}")


def _log_checkpoint(table: ExaminedTable) -> Finding:
    interval = _natural(table.log.properties, CHECKPOINT_INTERVAL, DEFAULT_INTERVAL)
    commits = table.log.version - table.log.checkpoint
    if commits <= interval * MISSED_CHECKPOINTS:
        return ok(f"{commits:,} commits since the last Delta checkpoint")
    return warning(
        f"{commits:,} commits since the last Delta checkpoint, although the table wants one every {interval:,}",
        expected="Delta checkpoints: every reader of the table reads all commits since the last one",
        advice="look in the log of the newest runs for why they do not write it",
    )


def _log_length(table: ExaminedTable) -> Finding:
    if table.log.entries <= MAX_LOG_ENTRIES:
        return ok(f"{table.log.entries:,} commits are kept")
    return warning(
        f"{table.log.entries:,} commits are kept, so a listing of the log takes {table.log.entries // 1000:,} requests",
        expected=f"at most {MAX_LOG_ENTRIES:,}",
        advice="commit less often (`checkpoint.interval_secs`), shorten delta.logRetentionDuration, and look whether "
        "delta.enableExpiredLogCleanup is off",
    )


def _small_files(table: ExaminedTable) -> Finding:
    files, mean = table.log.files, table.log.bytes // max(table.log.files, 1)
    target = max(pipeline.target_file_bytes for pipeline in table.pipelines)
    found = f"{files:,} files of {mean:,} bytes on average"
    if files < SMALL_FILES or mean * SMALL_FRACTION >= target:
        return ok(found)
    return warning(
        found,
        expected=f"files near `target_file_bytes`, {target:,}: a query opens each of them",
        advice=f"OPTIMIZE delta.`{table.uri}`, with Blizzard's log store (docs/how-it-works.md#the-log-store); larger "
        "batches make fewer files",
    )


def _data_files(table: ExaminedTable) -> Finding:
    paths = [*table.log.paths]
    some = paths[:: -(-len(paths) // LOOKED_AT_FILES) or 1]
    below = {unquote(path) for path in some if not ABSOLUTE.match(path)}
    lost = sorted(path for path, info in heads(table.store, below, at_once=PARALLEL_HEADS).items() if info is None)
    looked = f"{len(below):,} of {table.log.files:,} data files were looked at"
    if not lost:
        return ok(f"{looked}, and are there")
    named = ", ".join(lost[:SHOWN_FILES]) + (
        f" and {len(lost) - SHOWN_FILES:,} more" if len(lost) > SHOWN_FILES else ""
    )
    return problem(
        f"{looked}, and {len(lost):,} are not there: {named}",
        expected="every data file that the table's log has: without one the table cannot be read",
        advice="docs/runbook.md#a-data-file-of-the-table-is-lost; `blizzard audit` looks at all of them",
    )


def _other_writers(table: ExaminedTable) -> Finding:
    theirs = [commit for commit in table.log.newest if commit.changes_data and not _is_ours(commit)]
    if not theirs:
        return ok(f"none in the newest {len(table.log.newest):,} commits")
    kinds = Counter(f"{commit.operation} by {commit.engine}" for commit in theirs)
    shown = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common(3))
    return warning(
        f"{len(theirs):,} of the newest {len(table.log.newest):,} commits changed rows without Blizzard: {shown}; the "
        f"newest is version {theirs[0].version:,}",
        expected="only Blizzard, or others with its log store: with another one two writers win one commit",
        advice="look at who it is (DESCRIBE HISTORY), and give it the settings of docs/how-it-works.md#the-log-store",
    )


def _is_ours(commit: LoggedCommit) -> bool:
    return any(app_id.startswith((APP_ID_PREFIX, COMMITTER_APP_ID_PREFIX)) for app_id in commit.app_ids)


def _other_sources(table: ExaminedTable) -> Finding:
    seen = {app_id for commit in table.log.newest for app_id in commit.app_ids}
    found = {source_id for app_id in seen if (source_id := source_of_app_id(app_id)) is not None}
    others = sorted(found - {*table.app_ids.values()})
    if not others:
        return ok("only sources of this configuration")
    names = ", ".join(each[:100] for each in others[:5])
    return warning(
        f"the newest {len(table.log.newest):,} commits are also of {names}",
        expected="one configuration for all sources of a table: two would not notice a renamed source",
        advice="put the sources into one configuration, or give a renamed one its former name back",
    )


def _clock(table: ExaminedTable) -> Finding:
    newest = max((commit.committed_ts for commit in table.log.newest if commit.committed_ts), default=None)
    if newest is None:
        return skipped("the newest commits do not say their time")
    ahead = newest - table.clock()
    return clock_finding(ahead, "the last writer's") if ahead >= SKEW_WARNING_SECS else ok("no commit is of the future")


def _natural(properties: Mapping[str, str], name: str, default: int) -> int:
    value = properties.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and int(value) else default


CHECKS: Sequence[Check[ExaminedTable]] = (
    Check("table.log", _log),
    *(
        Check(f"table.{name}", look, needs=("table.log",))
        for name, look in (
            ("protocol", _protocol),
            ("partitioning", _partitioning),
            ("source-column", _source_column),
            ("txns", _txns),
            ("txn-retention", _txn_retention),
            ("log-retention", _log_retention),
            ("log-checkpoint", _log_checkpoint),
            ("log-length", _log_length),
            ("small-files", _small_files),
            ("data-files", _data_files),
            ("other-writers", _other_writers),
            ("other-sources", _other_sources),
            ("clock", _clock),
        )
    ),
)
