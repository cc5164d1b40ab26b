"""`blizzard plan` of a source that reads topics."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from blizzard.audit.topic_plan import (
    MessageHistory,
    TopicBacklog,
    commits_of,
    has_lost_txn,
    message_history,
    topic_backlog,
)
from blizzard.cli.brokers_of import brokers_of
from blizzard.config.kafka_options import KafkaOptions
from blizzard.config.model import Pipeline, Source
from blizzard.kafka.batch_limits import FIRST_GUESS_BYTES, BatchLimits
from blizzard.kafka.positions import about_missing
from blizzard.kafka.table_state import topic_state
from blizzard.prices.backlog import Work
from blizzard.state.identity import SourceIdentity
from blizzard.state.topic_checkpoint import path_of
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings

SHOWN_PARTITIONS = 20


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """`limits`: of one batch. `missing`: about topics that the brokers do not have; None: they have all.
    `states_start`: whether a commit without rows says where the source begins."""

    source: str
    backlog: TopicBacklog
    history: MessageHistory
    limits: BatchLimits
    missing: str | None = None
    states_start: bool = False

    @property
    def is_new(self) -> bool:
        return self.backlog.is_new

    @property
    def problem(self) -> str | None:
        return self.backlog.problem

    @property
    def begins(self) -> str:
        return "it begins at its `start`"

    @property
    def messages(self) -> int:
        return self.history.messages_expected(self.backlog.lag)

    @property
    def bytes(self) -> int | None:
        return self.history.expected(self.messages, self.history.bytes)

    @property
    def commits(self) -> int:
        """With the one that says where a new source begins."""
        size, lag = self.bytes, self.backlog.lag
        return commits_of(lag, None if size is None or not lag else size / lag, self.limits) + self.states_start

    @property
    def work(self) -> Work:
        if not self.messages or self.problem is not None:
            return Work()
        size = self.bytes
        size = self.messages * FIRST_GUESS_BYTES if size is None else size
        return Work(commits=self.commits, messages=self.messages, message_bytes=size)

    def as_document(self) -> dict[str, Any]:
        history, messages = self.history, self.messages
        return {
            "kind": "topics",
            "source": self.source,
            "is_new": self.is_new,
            "lag": self.backlog.lag,
            "partitions": [asdict(one) for one in self.backlog.partitions],
            "messages_expected": messages,
            "bytes_expected": self.bytes,
            "rows_expected": history.expected(messages, history.rows),
            "rejected_expected": history.expected(messages, history.rejected),
            "expected_from_commits": history.commits,
            "commits": self.commits,
            "missing": [*self.backlog.missing],
            "problem": self.problem,
        }

    def lines(self) -> Iterator[str]:
        history, backlog = self.history, self.backlog
        yield f"  reads       {backlog.lag:,} offsets of {len(backlog.partitions):,} partitions"
        behind = sorted((one for one in backlog.partitions if one.lag or one.lost), key=lambda one: -one.lag)
        for one in behind[:SHOWN_PARTITIONS]:
            path = path_of((one.topic, one.partition))
            lost = f"; {one.lost:,} before it are gone" if one.lost else ""
            yield f"    {path}: {one.lag:,}, from {one.next_offset:,} to {one.end_offset - 1:,}{lost}"
        if len(behind) > SHOWN_PARTITIONS:
            yield f"    and {len(behind) - SHOWN_PARTITIONS:,} more partitions; --json has them"
        if self.messages:
            known = f"of the newest {history.commits:,} commits" if history.messages else "nothing is ingested yet"
            size, rows = self.bytes, history.expected(self.messages, history.rows)
            yield f"  messages    about {self.messages:,}, {'unknown' if size is None else f'about {size:,}'} bytes"
            yield f"  commits     {self.commits:,}"
            yield f"  rows        {'unknown' if rows is None else f'about {rows:,}'} ({known})"
        if self.missing is not None:
            yield f"  misses      {self.missing}"
        if self.problem is not None:
            yield f"  would stop  {self.problem}"


EMPTY_TOPIC_PLAN = TopicPlan("", TopicBacklog(is_new=False), MessageHistory(), BatchLimits(1, 1))


def topic_plan(pipeline: Pipeline, source: Source, options: KafkaOptions, settings: S3Settings) -> TopicPlan:
    """Only reads, without a consumer group. Errors as of `topic_state` and `topic_backlog`; ConfigError if Kafka's
    client is not installed."""
    identity = SourceIdentity(pipeline.name, source.name, source.state_prefix)
    store = open_store(pipeline.table_uri, settings, may_be_missing=True)
    state = topic_state(store, identity)
    txn_lost = has_lost_txn(state, store, identity, pipeline.table_uri, settings)
    brokers, configured = brokers_of(source, options), pipeline.source_ids
    backlog = topic_backlog(state, store, identity, brokers, options, configured=configured, txn_lost=txn_lost)
    return TopicPlan(
        source.id,
        backlog,
        message_history(store, identity, state.checkpoint),
        BatchLimits(source.checkpoint.interval_records, source.checkpoint.interval_bytes),
        about_missing(options, backlog.missing) if backlog.missing else None,
        backlog.is_new and not (source.begins_with_rows and state.version is None),
    )
