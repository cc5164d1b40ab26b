"""Epochs of the partitions' leaders: whether a log is still the one that was read, whatever offsets it has now."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from blizzard.errors import RecoveryError
from blizzard.kafka.brokers import Brokers, End, Place
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint, path_of


def with_epochs(checkpoint: TopicCheckpoint, ends: Mapping[Partition, End]) -> TopicCheckpoint:
    """The checkpoint with the epochs of these ends, beside those that it has of other partitions."""
    topics = {}
    for name, position in checkpoint.topics.items():
        told = {n: end.leader_epoch for n in position.next_offsets if (end := ends.get((name, n))) is not None}
        epochs = {**position.leader_epochs, **{n: epoch for n, epoch in told.items() if epoch is not None}}
        topics[name] = replace(position, leader_epochs=MappingProxyType(epochs))
    return replace(checkpoint, topics=MappingProxyType(topics))


def with_other_leaders(checkpoint: TopicCheckpoint, ends: Mapping[Partition, End]) -> dict[Partition, Place]:
    """Where the source stands in partitions whose epoch is another one than the checkpoint's: logs that may have lost
    messages. Before offset 0 there is nothing to lose, nor in a partition that the checkpoint does not know."""
    places = {}
    for partition, end in ends.items():
        at = checkpoint.next_offset(partition)
        epoch = checkpoint.topics[partition[0]].leader_epochs.get(partition[1]) if at else None
        if at and epoch is not None and end.leader_epoch not in (None, epoch):
            places[partition] = Place(at, epoch)
    return places


def cut_logs(brokers: Brokers, checkpoint: TopicCheckpoint, ends: Mapping[Partition, End]) -> Mapping[Partition, str]:
    """The partitions whose logs no longer have all that the source has read, with what is known of it: messages may be
    others than those that had these offsets. `ends`: of the topics that the checkpoint is about. Errors as of
    `Brokers`."""
    found: dict[Partition, str] = {}
    for partition, end in ends.items():
        at = checkpoint.next_offset(partition) or 0
        if end.offset < at:
            found[partition] = f"the log of {path_of(partition)} ends before offset {end.offset}; expected {at} or more"
    places = with_other_leaders(checkpoint, ends)
    for partition, said in (brokers.truncated(places) if places else {}).items():
        below = f"below offset {places[partition].offset}, where the source stands"
        found[partition] = f"the log of {path_of(partition)} was truncated {below} ({said})"
    return found


def check_logs(brokers: Brokers, places: Mapping[Partition, Place]) -> None:
    """Raises RecoveryError if one of the logs was truncated below the place. Other errors as of `Brokers`."""
    cut = brokers.truncated(places) if places else {}
    for partition, said in sorted(cut.items()):
        raise RecoveryError(
            f"partition {path_of(partition)} was truncated below offset {places[partition].offset}, where the source "
            "stands: the brokers have lost messages that they had (an unclean election of a leader, or a lost disk), "
            f"and new ones get the same offsets. Nothing was read. Kafka's client says: {said}. Take topic "
            f"{partition[0]} out of this source, and give it a source of its own, under a new name and with "
            "`take_over: nothing`, which reads it from its beginning; messages from before that the brokers still have "
            "are then in the table twice."
        )
