"""`blizzard audit` of a source that reads topics."""

from collections.abc import Collection, Iterator, Mapping

from rich.console import Console

from blizzard.audit.topic_report import TopicAuditReport
from blizzard.cli.brokers_of import brokers_of
from blizzard.cli.steps import Steps
from blizzard.config.kafka_options import KafkaOptions
from blizzard.config.model import Pipeline, Source
from blizzard.log import one_line
from blizzard.state.identity import SourceIdentity
from blizzard.state.topic_checkpoint import Partition
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings

SHOWN_NAMES = 20
FETCHED_AHEAD_BYTES = 32 << 20


def audit_of_topics(
    pipeline: Pipeline,
    source: Source,
    options: KafkaOptions,
    settings: S3Settings,
    known: Collection[str],
    *,
    clock_ts: float,
    shown: Steps,
) -> TopicAuditReport:
    """`known`: the sources of its table. `clock_ts`: now. Raises ConfigError if Kafka's client is not installed; other
    errors as `audit_topics`."""
    brokers = brokers_of(source, options)
    from blizzard.audit.topics import AuditedTopics, audit_topics
    from blizzard.kafka.login import Login
    from blizzard.kafka.range_consumer import RangeConsumer

    login = Login(options)

    def offsets(ranges: Mapping[Partition, tuple[int, int]]) -> Iterator[tuple[Partition, list[int]]]:
        consumer = RangeConsumer(ranges, login.settings(), options.isolation, FETCHED_AHEAD_BYTES)
        for partition, messages in consumer.messages():
            yield partition, [message.offset() for message in messages]

    audited = AuditedTopics(
        SourceIdentity(pipeline.name, source.name, source.state_prefix),
        pipeline.table_uri,
        open_store(pipeline.table_uri, settings, may_be_missing=True),
        settings,
        brokers,
        offsets,
        known,
    )
    return audit_topics(audited, clock=lambda: clock_ts, progress=shown)


def show_topics(report: TopicAuditReport) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(report.source, style="bold", markup=False)
    for line in lines_of(report):
        console.print(one_line(line), markup=False)


def lines_of(report: TopicAuditReport) -> Iterator[str]:
    yield f" messages       {report.objects:,} in {len(report.partitions):,} partitions"
    for name in ("committed", "dead_lettered", "pending", "missing", "doubled", "changed", "added", "lost"):
        yield f" {name.replace('_', '-'):<14} {getattr(report, name):,}"
    gone = f", {report.gone:,} are gone" if report.gone else ""
    yield f" rows           {report.rows:,}{gone}"
    yield f" table version  {'none yet' if report.table_version is None else f'{report.table_version:,}'}"
    for kind in ("missing", "doubled", "added"):
        named = report.found.get(kind, ())
        for each in named[:SHOWN_NAMES]:
            yield f" {kind}: {each['path']} {each['first']} to {each['last']}"
        if len(named) > SHOWN_NAMES:
            yield f" {kind}: and {len(named) - SHOWN_NAMES:,} more ranges; --json has them"
    for notice in report.notices:
        yield f" {notice.kind}: {notice.text}"
    yield f" digest         {report.digest}"
    yield f" verdict        {report.verdict}"
