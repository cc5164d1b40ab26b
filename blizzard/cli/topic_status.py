"""The status of a source that reads topics: how far it has read, and how far behind the brokers it is."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from blizzard.cli.source_status import (
    RunStatus,
    age_secs,
    committed_ts,
    dead_letter_files,
    odd_fields,
    run_status,
    table_version,
    uncommitted,
)
from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import BlizzardError, PermanentError, UnreadableState
from blizzard.kafka.missing_client import missing_client
from blizzard.kafka.positions import about_gone, about_missing, topics_gone, topics_missing
from blizzard.state.delta_log import Commit
from blizzard.state.identity import SourceIdentity
from blizzard.state.newest_commit import NewestCommit, newest_commit, no_checkpoint
from blizzard.state.topic_checkpoint import TopicCheckpoint
from blizzard.state.topic_state import copied_state, newest_state, readable_copy
from blizzard.storage.base import ObjectStore


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """`next_offset`: of the next message to read. `lag`: offsets up to the end, some of which may have no message.
    `lag_secs`: for how long the first message waits that was not read; 0: none does; None: it has no time.
    `held_back`: offsets behind the end, since a transaction is open; `held_back_secs`: for how long, as `lag_secs`."""

    topic: str
    partition: int
    next_offset: int
    end_offset: int
    lag: int
    lag_secs: float | None
    held_back: int
    held_back_secs: float | None


@dataclass(frozen=True, slots=True)
class GoneTopic:
    """A topic that was read, and is not read on: the brokers do not have it, or if `is_named` is false, the
    configuration does not name it any more. `partitions`: how many of it were read."""

    topic: str
    partitions: int
    is_named: bool


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """None: there is nothing yet; of `lag` and `lag_secs`: the brokers do not answer, or no longer have what was
    read; of `lag_secs` also: messages wait of which the time is not known."""

    source: str
    table_uri: str
    table_version: int | None
    sequence: int | None
    partitions: list[PartitionStatus]
    gone: list[GoneTopic]
    lag: int | None
    lag_secs: float | None
    """The longest of all partitions."""
    dead_letter_files: int
    """Partitions with dead letters."""
    unknown_fields: dict[str, Any]
    misfits: dict[str, Any]
    last_commit_ts: float | None
    last_commit_age_secs: float | None
    run: RunStatus | None = None
    problem: str | None = None
    kind: str = "topics"


def topic_status(
    store: ObjectStore, identity: SourceIdentity, options: KafkaOptions, *, table_uri: str, now_ts: float
) -> TopicStatus:
    """Reads only. `store`: the table's."""
    version = table_version(store)
    commit, checkpoint, problem = _state(store, identity, has_table=version is not None)
    partitions, brokers_problem = _partitions(options, checkpoint, now_ts)
    absent = None if brokers_problem else _absent(options, checkpoint, {one.topic for one in partitions})
    run, run_problem = run_status(store, identity.pipeline)
    committed = committed_ts(commit, checkpoint)
    return TopicStatus(
        source=identity.source_id,
        table_uri=table_uri,
        table_version=version,
        sequence=checkpoint.sequence if checkpoint else None,
        partitions=partitions,
        gone=[] if brokers_problem else _gone(options, checkpoint, {one.topic for one in partitions}),
        lag=None if brokers_problem else sum(one.lag for one in partitions),
        lag_secs=None if brokers_problem else _longest([one.lag_secs for one in partitions]),
        dead_letter_files=dead_letter_files(store, identity),
        **odd_fields(store, identity, checkpoint),
        last_commit_ts=committed,
        last_commit_age_secs=age_secs(committed, now_ts),
        run=run,
        problem=problem or brokers_problem or absent or run_problem,
    )


def _longest(secs: Sequence[float | None]) -> float | None:
    """None: of one of them it is not known, which may be the longest."""
    known = [each for each in secs if each is not None]
    return max(known, default=0.0) if len(known) == len(secs) else None


def _state(
    store: ObjectStore, identity: SourceIdentity, *, has_table: bool
) -> tuple[Commit | None, TopicCheckpoint | None, str | None]:
    """The newest commit, if it had to be found; its checkpoint, or else its copy; and the problem, if there is one."""
    copy = readable_copy(identity, store)
    copy_sequence = None if copy is None else copy.sequence
    commit, problem = None, None
    try:
        newest = (
            newest_commit(store, identity.app_id, lambda: copy_sequence) if has_table else NewestCommit(copy_sequence)
        )
        commit = newest.commit
        if commit is not None:
            checkpoint, unreadable = newest_state(commit, identity, store)
            if unreadable is not None:
                problem = f"{unreadable}; the next run reads the positions from the table's Txns"
            if checkpoint is not None:
                return commit, checkpoint, problem
        elif newest.sequence is None and copy_sequence is not None:
            return None, None, uncommitted(copy_sequence)
        elif newest.sequence is not None and newest.sequence != copy_sequence:
            return None, None, no_checkpoint(newest.sequence)
        return commit, copied_state(identity, store), problem
    except (UnreadableState, PermanentError) as error:
        return commit, None, problem or str(error)


def _absent(options: KafkaOptions, checkpoint: TopicCheckpoint | None, found: Set[str]) -> str | None:
    if missing := topics_missing(options, found):
        return about_missing(options, missing)
    gone = [] if checkpoint is None else topics_gone(options, checkpoint, found)
    if expected := [name for name in gone if options.matches(name)]:
        return about_gone(options, expected)
    return None


def _gone(options: KafkaOptions, checkpoint: TopicCheckpoint | None, found: Set[str]) -> list[GoneTopic]:
    known = checkpoint.topics if checkpoint else {}
    return [
        GoneTopic(name, len(known[name].next_offsets), options.matches(name)) for name in sorted(known.keys() - found)
    ]


def _partitions(
    options: KafkaOptions, checkpoint: TopicCheckpoint | None, now_ts: float
) -> tuple[list[PartitionStatus], str | None]:
    """With why the brokers could not be asked, or why their offsets say nothing."""
    try:
        from blizzard.kafka.client import KafkaBrokers
        from blizzard.kafka.lag import lags
    except ImportError:
        return [], missing_client("the brokers were not asked")
    try:
        found = lags(KafkaBrokers(options), options, checkpoint, checked=True)
    except BlizzardError as error:
        return [], str(error)
    return [
        PartitionStatus(
            *one.partition,
            one.next_offset,
            one.end_offset,
            one.lag,
            0.0 if not one.lag else age_secs(one.waiting_since_ts, now_ts),
            one.held_back,
            0.0 if not one.held_back else age_secs(one.held_since_ts, now_ts),
        )
        for one in found
    ], None
