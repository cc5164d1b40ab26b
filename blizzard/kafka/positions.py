"""Where brokers and a checkpoint agree, and where not: new partitions, messages that are gone, other topics."""

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType

from blizzard.config.kafka_options import EARLIEST, LATEST, KafkaOptions
from blizzard.errors import PermanentError, RecoveryError, RetryableError
from blizzard.kafka.brokers import Brokers, Cluster, End
from blizzard.kafka.epochs import check_logs, with_epochs, with_other_leaders
from blizzard.kafka.takeover import check_taken_over
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint, TopicPosition, path_of


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that are gone: from `start` (inclusive) to `end` (exclusive)."""

    partition: Partition
    topic_id: str
    start: int
    end: int

    def about(self) -> str:
        """What its dead letter says beside the text, as JSON."""
        return json.dumps({"lost_from": self.start, "lost_to": self.end - 1})

    def __str__(self) -> str:
        return (
            f"offsets {self.start} to {self.end - 1} of {path_of(self.partition)} are gone before they were read: "
            f"{self.end - self.start} at most"
        )


def first_positions(
    brokers: Brokers,
    cluster: Cluster,
    options: KafkaOptions,
    checkpoint: TopicCheckpoint,
    taken_over: Mapping[Partition, int],
) -> TopicCheckpoint:
    """Where a source begins that has no state. `cluster`: as the brokers have just told it. `taken_over`: next offsets
    of what another program has read; other partitions then begin with their first message. Raises PermanentError for a
    topic that there is not, RecoveryError for offsets that cannot be of the topic."""
    missing = topics_missing(options, cluster.topics.keys())
    if missing and options.topics is not None:
        raise PermanentError(
            f"there is no topic {missing[0]} on {options.bootstrap_servers}, or its user may not see it. Nothing was "
            "read. Correct `kafka.topics`, create the topic, or let the user describe it."
        )
    if taken_over:
        check_taken_over(taken_over, brokers, cluster, options)
    partitions = cluster.partitions()
    if options.start == EARLIEST or taken_over:
        offsets = brokers.first_offsets(partitions)
    elif options.start == LATEST:
        offsets = brokers.end_offsets(partitions)
    else:
        offsets = brokers.offsets_at(partitions, options.start_ts or 0.0)
    app_id = (options.app_id_to_take_over if taken_over else None) or ""
    fresh = replace(checkpoint, cluster_id=cluster.cluster_id, taken_over=app_id)
    return with_epochs(with_offsets(fresh, {**offsets, **taken_over}, cluster), brokers.ends(partitions))


def topics_missing(options: KafkaOptions, found: Set[str]) -> Sequence[str]:
    """The topics that the source names and the brokers do not have, or its user may not see; a pattern that matches
    none of `found` is missing itself."""
    if options.topic_pattern is not None:
        return [] if found else [options.topic_pattern]
    return sorted({*(options.topics or ())} - found)


def topics_gone(options: KafkaOptions, checkpoint: TopicCheckpoint, found: Set[str]) -> Sequence[str]:
    """Topics that were read by a pattern, and are not among those that it has `found` now. Of `topics`, those that are
    gone are in `topics_missing`, and who takes a name out knows it."""
    return [] if options.topic_pattern is None else sorted(checkpoint.topics.keys() - found)


def about_gone(options: KafkaOptions, gone: Sequence[str]) -> str:
    """`gone`: topics that the pattern matches."""
    return (
        f"topic {', '.join(gone)}, which was read, is not on {options.bootstrap_servers} any more, or its user may not "
        "see it: what was not read of it by then is not in the table. Its rows stay, and other topics are read on. Let "
        "the user describe it; or if it is to be gone, exclude it by `kafka.topic_pattern`."
    )


def about_missing(options: KafkaOptions, missing: Sequence[str]) -> str:
    if options.topic_pattern is not None:
        return (
            f"no topic on {options.bootstrap_servers} matches {options.topic_pattern!r}, or its user may not see it. "
            "Correct `kafka.topic_pattern` (it matches no name that begins with `__`), create a topic, or let the user "
            "describe it."
        )
    return (
        f"there is no topic {', '.join(missing)} on {options.bootstrap_servers}, or its user may not see it; other "
        "topics are read on. Correct `kafka.topics`, create the topic, or let the user describe it."
    )


def with_offsets(
    checkpoint: TopicCheckpoint, offsets: Mapping[Partition, int], cluster: Cluster | None = None
) -> TopicCheckpoint:
    """The checkpoint with these next offsets, beside those that it has of other partitions. A partition that is new to
    it begins there; `cluster` has the topics that are new to it."""
    topics = {name: dict(position.next_offsets) for name, position in checkpoint.topics.items()}
    firsts = {name: dict(position.first_offsets) for name, position in checkpoint.topics.items()}
    for (name, number), offset in offsets.items():
        if number not in topics.setdefault(name, {}):
            firsts.setdefault(name, {})[number] = offset
        topics[name][number] = offset
    ids = {name: position.topic_id for name, position in checkpoint.topics.items()}
    if cluster is not None:
        ids = {name: topic.topic_id for name, topic in cluster.topics.items()} | ids
    epochs = {name: position.leader_epochs for name, position in checkpoint.topics.items()}
    positions = {
        name: TopicPosition(
            ids[name], MappingProxyType(nexts), MappingProxyType(firsts.get(name, {})), epochs.get(name, {})
        )
        for name, nexts in topics.items()
    }
    return replace(checkpoint, topics=MappingProxyType(positions))


def own_source(topic: str) -> str:
    """What to do about a topic whose offsets begin anew. A new name for the whole source would read its other topics
    again."""
    return (
        f"Take {topic} out of this source (out of `kafka.topics`; with `topic_pattern`: exclude it by the pattern), "
        "and give it a source of its own, under a new name and with `take_over: nothing`, which reads it from its "
        "`start` on. The table keeps what it has."
    )


def check_topics(checkpoint: TopicCheckpoint, cluster: Cluster) -> None:
    """Raises RecoveryError if these are not the topics that the checkpoint is about."""
    if cluster.cluster_id != checkpoint.cluster_id:
        raise RecoveryError(
            f"the brokers are of cluster {cluster.cluster_id}; expected {checkpoint.cluster_id}, whose messages the "
            "table has. Their offsets have nothing to do with each other. Nothing was read. Correct "
            "`kafka.bootstrap_servers`. To read this cluster as well, give it a source of its own, under a new name: "
            "it reads all of its topics from `start` on, and what the table has of them comes twice if this cluster is "
            "a copy of the other."
        )
    for name, position in checkpoint.topics.items():
        topic = cluster.topics.get(name)
        if topic is None:
            continue  # deleted, or no longer named: what was read stays
        if topic.topic_id != position.topic_id:
            raise RecoveryError(
                f"topic {name} was deleted and made again: its id is {topic.topic_id}; expected {position.topic_id}, "
                f"whose messages the table has. Its offsets begin anew. Nothing was read. {own_source(name)}"
            )
        lost = sorted({*position.next_offsets} - {*topic.partitions})
        if lost:
            raise RecoveryError(
                f"topic {name} has {len(topic.partitions)} partitions, and no partition {lost[0]} any more, of which "
                f"the table has messages. Nothing was read. {own_source(name)}"
            )


def check_read(checkpoint: TopicCheckpoint, brokers: Brokers, cluster: Cluster, ends: Mapping[Partition, End]) -> None:
    """`ends`: of the partitions of the cluster. Raises RecoveryError if the brokers no longer have what was read: other
    topics of these names, or logs that were truncated. Other errors as of `Brokers`."""
    check_topics(checkpoint, cluster)
    check_logs(brokers, with_other_leaders(checkpoint, ends))


def new_partitions(checkpoint: TopicCheckpoint, cluster: Cluster) -> list[Partition]:
    return [partition for partition in cluster.partitions() if checkpoint.next_offset(partition) is None]


def with_new_partitions(checkpoint: TopicCheckpoint, brokers: Brokers, cluster: Cluster) -> TopicCheckpoint:
    """A partition that was added to a known topic begins with 0, whatever is gone of it since; of a topic that is new
    nobody knows what it had, and its partitions begin with the first messages that they have. Errors as of
    `Brokers`."""
    new = new_partitions(checkpoint, cluster)
    if not new:
        return checkpoint
    firsts = brokers.first_offsets(new)
    return with_offsets(
        checkpoint, {each: 0 if each[0] in checkpoint.topics else firsts[each] for each in new}, cluster
    )


def lags(checkpoint: TopicCheckpoint, ends: Mapping[Partition, int]) -> dict[Partition, int]:
    """How many offsets of each partition are still to be read. Negative: it ends before what the table has of it."""
    return {(name, number): end - checkpoint.topics[name].next_offsets[number] for (name, number), end in ends.items()}


def lost_messages(checkpoint: TopicCheckpoint, firsts: Mapping[Partition, int]) -> list[Gap]:
    """`firsts`: the offset of the first message that each partition still has."""
    gaps = []
    for (name, number), first in firsts.items():
        position = checkpoint.topics[name]
        at = position.next_offsets[number]
        if first > at:
            gaps.append(Gap((name, number), position.topic_id, at, first))
    return gaps


def lost_before(checkpoint: TopicCheckpoint, brokers: Brokers, ends: Mapping[Partition, int]) -> list[Gap]:
    """Errors as of `Brokers`."""
    # Of a partition that ends where the source stands nothing is gone: it has had no message since.
    waiting = [partition for partition, lag in lags(checkpoint, ends).items() if lag > 0]
    return lost_messages(checkpoint, brokers.first_offsets(waiting))


def refuse_gaps(gaps: list[Gap], source_id: str) -> None:
    raise RecoveryError(
        f"{gaps[0]}. Source {source_id} has stopped, and has read nothing since. The topic's retention is too short "
        "for the pauses of the source, or somebody has deleted records. To go on behind the gap, which then becomes a "
        "dead letter: set `kafka.on_lost_offsets: continue`."
    )


def check_ends(checkpoint: TopicCheckpoint, ends: Mapping[Partition, int]) -> None:
    """Raises RetryableError if a partition ends before what the table has of it. For a moment that can be so after a
    change of its leader."""
    for (name, number), end in ends.items():
        at = checkpoint.topics[name].next_offsets[number]
        if end < at:
            raise RetryableError(
                f"partition {path_of((name, number))} ends with offset {end - 1}, and the table has its messages "
                f"up to {at - 1}. If this stays so, the brokers have lost messages (an unclean election of a leader), "
                f"and new ones get the same offsets. Then: {own_source(name)}"
            )
