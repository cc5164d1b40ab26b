"""Checks of sources that read topics: the state in the table, and whether the brokers agree with it."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from blizzard.config.kafka_options import KafkaOptions
from blizzard.config.model import Source
from blizzard.doctor.check import Check, Finding, ok, problem, skipped, warning
from blizzard.doctor.state import BACKLOG_PROBLEM_SECS, BACKLOG_WARNING_SECS, OF_DAMAGED_LOG, age, dead_letters
from blizzard.errors import BlizzardError, BucketMissing, LogDamaged, PermanentError, RecoveryError, UnreadableState
from blizzard.kafka.brokers import Brokers, Cluster
from blizzard.kafka.epochs import check_logs, with_other_leaders
from blizzard.kafka.positions import Gap, lost_messages, topics_missing
from blizzard.state.identity import SourceIdentity
from blizzard.state.newest_commit import newest_commit, no_checkpoint
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint, path_of
from blizzard.state.topic_state import copied_state, newest_state, readable_copy
from blizzard.storage.base import ObjectStore

if TYPE_CHECKING:
    from blizzard.kafka.lag import PartitionLag  # needs Kafka's client

NAMED = 3
"""Topics or partitions that a finding names."""


class SourceTopics:
    """`store`: the table's. `clock` gives Unix seconds."""

    def __init__(
        self, source: Source, options: KafkaOptions, store: ObjectStore, clock: Callable[[], float], *, deployed: bool
    ) -> None:
        self.source, self.options, self.store, self.deployed = source, options, store, deployed
        self.now_ts = clock()
        self.identity = SourceIdentity(source.pipeline, source.name, source.state_prefix)

    @cached_property
    def checkpoint(self) -> TopicCheckpoint | None:
        """Of the source's newest commit, however old that is; None: there is none. If the log no longer has it, the
        copy of it. Raises UnreadableState, and PermanentError for the state of a source of files."""
        try:
            newest = newest_commit(self.store, self.identity.app_id, self._copied_sequence)
        except BucketMissing:
            return None
        if newest.commit is not None:
            found, problem = newest_state(newest.commit, self.identity, self.store)
            if problem is not None:
                raise problem
            return found
        copy = None if newest.sequence is None else copied_state(self.identity, self.store)
        if newest.sequence is not None and (copy is None or copy.sequence != newest.sequence):
            raise UnreadableState(no_checkpoint(newest.sequence))
        return copy

    def _copied_sequence(self) -> int | None:
        copy = readable_copy(self.identity, self.store)
        return None if copy is None else copy.sequence

    @cached_property
    def known(self) -> TopicCheckpoint | None:
        """None as well if it cannot be read."""
        try:
            return self.checkpoint
        except (UnreadableState, PermanentError):
            return None

    @cached_property
    def brokers(self) -> Brokers:
        from blizzard.kafka.client import KafkaBrokers

        return KafkaBrokers(self.options)

    @cached_property
    def cluster(self) -> Cluster:
        return self.brokers.cluster()

    @cached_property
    def gaps(self) -> Sequence[Gap]:
        """Of partitions that the source knows: offsets that are gone before they were read."""
        if self.known is None:
            return []
        return lost_messages(self.known, self.brokers.first_offsets(self._partitions(self.known)))

    def check_logs(self) -> None:
        """Raises RecoveryError if a partition was truncated below where the source stands."""
        if self.known is not None:
            ends = self.brokers.ends(self._partitions(self.known))
            check_logs(self.brokers, with_other_leaders(self.known, ends))

    def _partitions(self, known: TopicCheckpoint) -> list[Partition]:
        """Of the checkpoint, those that the brokers have."""
        return [each for each in self.cluster.partitions() if known.next_offset(each) is not None]


def _state(topics: SourceTopics) -> Finding:
    try:
        found = topics.checkpoint
    except LogDamaged as error:
        return problem(str(error), expected="a log of the table that can be read", advice=OF_DAMAGED_LOG)
    except UnreadableState as error:
        return problem(
            str(error),
            expected="the checkpoint of the newest commit",
            advice="the next run reads the positions from the table's Txns: `blizzard run --once`. If a newer version "
            "wrote it, upgrade this one",
        )
    except PermanentError as error:
        return problem(str(error), expected="the state of topics", advice="docs/kafka.md#how-it-stays-exact")
    if found is None or found.sequence < 0:
        return skipped("nothing is committed yet")
    return ok(
        f"sequence {found.sequence:,}, {sum(len(each.next_offsets) for each in found.topics.values())} partitions"
    )


def _client(topics: SourceTopics) -> Finding:
    try:
        import confluent_kafka
    except ImportError:
        return problem(
            "the package confluent-kafka is not installed",
            expected="Kafka's client, which reads topics",
            advice="`pip install 'blizzard[kafka]'`",
        )
    return ok(f"confluent-kafka {confluent_kafka.version()}")


def _brokers(topics: SourceTopics) -> Finding:
    try:
        found = topics.cluster.cluster_id
    except BlizzardError as error:
        return problem(
            str(error),
            expected="an answer of the brokers",
            advice="correct `kafka.bootstrap_servers` or `kafka.security`; a stack's brokers answer only inside their "
            "network: docs/kafka.md#on-aws",
        )
    wanted = topics.known.cluster_id if topics.known else None
    if wanted is None or wanted == found:
        return ok(f"cluster {found}")
    return problem(
        f"the brokers are of cluster {found}, the table has messages of cluster {wanted}",
        expected="the same cluster, since offsets of two have nothing to do with each other",
        advice="correct `kafka.bootstrap_servers`, or give this cluster a source of its own, under a new name",
    )


def _topics(topics: SourceTopics) -> Finding:
    found = topics.cluster.topics
    if missing := topics_missing(topics.options, found.keys()):
        is_pattern = topics.options.topic_pattern is not None
        return problem(
            f"no topic matches {missing[0]}" if is_pattern else f"there is no topic {missing[0]}",
            expected="each topic of the configuration, and the right to describe it",
            advice="create it, or correct `kafka.topics` or `kafka.topic_pattern`",
        )
    known = topics.known.topics if topics.known else {}
    again = sorted(name for name, one in found.items() if name in known and known[name].topic_id != one.topic_id)
    if again:
        return problem(
            f"{_shown(again)} was deleted and made again, and offsets begin anew",
            expected="the topic whose messages the table has",
            advice="take it out of this source, and give it a source of its own, under a new name; another name for "
            "the whole source would read its other topics again",
        )
    gone = sorted(known.keys() - found.keys())
    lost = [name for name in gone if topics.options.topic_pattern is not None and topics.options.matches(name)]
    if lost:
        return warning(
            f"{_shown(lost)}, which was read, is gone",
            expected="each topic that was read by the pattern, and the right to describe it",
            advice="if it is to be gone, exclude it by `kafka.topic_pattern`; docs/kafka.md#messages-that-are-gone",
        )
    more = f"; {_shown(gone)}, which was read, is gone, or is not named any more" if gone else ""
    return ok(f"{len(found)} topics with {len(topics.cluster.partitions())} partitions{more}")


def _offsets(topics: SourceTopics) -> Finding:
    if topics.known is None:
        return skipped("nothing is committed yet")
    try:
        topics.check_logs()
    except RecoveryError as error:
        return problem(
            str(error),
            expected="logs that lose nothing that was read",
            advice="give the topic a source of its own; docs/kafka.md#messages-that-are-gone",
        )
    if not topics.gaps:
        return ok("the brokers have every message that is still to be read")
    count, where = (
        sum(gap.end - gap.start for gap in topics.gaps),
        _shown(sorted(path_of(gap.partition) for gap in topics.gaps)),
    )
    found = f"{count:,} offsets of {where} are gone before they were read"
    expected = "messages that are kept until they are read"
    advice = "raise the topic's `retention.ms`, or start runs more often; docs/kafka.md#messages-that-are-gone"
    if topics.options.on_lost_offsets == "stop":
        return problem(f"{found}, and the source stops", expected=expected, advice=advice)
    return warning(f"{found}; the next run writes a dead letter", expected=expected, advice=advice)


def _lag(topics: SourceTopics) -> Finding:
    from blizzard.kafka.lag import lags

    found_lags = lags(topics.brokers, topics.options, topics.known)
    if held := _held_back(found_lags, topics.now_ts):
        return held
    waiting = [each for each in found_lags if each.lag]
    if not waiting:
        return ok("nothing waits")
    since = [each.waiting_since_ts for each in waiting if each.waiting_since_ts is not None]
    secs = topics.now_ts - min(since, default=topics.now_ts)
    found = f"{sum(each.lag for each in waiting):,} messages wait{f', the oldest for {age(secs)}' if since else ''}"
    if len(since) < len(waiting):  # as where only the markers of transactions wait, which have no end
        untimed = _shown([path_of(each.partition) for each in waiting if each.waiting_since_ts is None])
        found += f"; it is not known since when those of {untimed} wait, which may be offsets without a message"
    expected, advice = f"less than {age(BACKLOG_WARNING_SECS)}", "docs/runbook.md#files-wait-too-long"
    if not topics.deployed:
        advice = "start `blizzard run --once`, or look why it does not end"
    if secs >= BACKLOG_PROBLEM_SECS:
        return problem(found, expected=expected, advice=advice)
    return warning(found, expected=expected, advice=advice) if secs >= BACKLOG_WARNING_SECS else ok(found)


def _held_back(found: "Sequence[PartitionLag]", now_ts: float) -> Finding | None:
    """Of a transaction that is open for long. No run can read behind it."""
    held = [each for each in found if each.held_back and each.held_since_ts is not None]
    secs = now_ts - min((each.held_since_ts or now_ts for each in held), default=now_ts)
    if secs < BACKLOG_WARNING_SECS:
        return None
    count, names = sum(each.held_back for each in held), _shown([path_of(each.partition) for each in held])
    return warning(
        f"{count:,} offsets of {names} are behind a transaction that is open for {age(secs)}, and no run reads them",
        expected=f"transactions that end within {age(BACKLOG_WARNING_SECS)}",
        advice="look for the producer that neither commits nor aborts it; Kafka's `kafka-transactions.sh find-hanging` "
        "names it, and `abort` ends it",
    )


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


CHECKS: Sequence[Check[SourceTopics]] = (
    Check("topics.state", _state),
    Check("topics.dead-letters", dead_letters),
    Check("topics.client", _client),
    Check("topics.brokers", _brokers, needs=("topics.client",)),
    Check("topics.topics", _topics, needs=("topics.brokers",)),
    Check("topics.offsets", _offsets, needs=("topics.topics",)),
    Check("topics.lag", _lag, needs=("topics.topics",)),
)
