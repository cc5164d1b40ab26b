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
    messages. Before offset 0 there is nothing to lose."""
    places = {}
    for (name, number), end in ends.items():
        position = checkpoint.topics[name]
        at, epoch = position.next_offsets[number], position.leader_epochs.get(number)
        if at and epoch is not None and end.leader_epoch not in (None, epoch):
            places[name, number] = Place(at, epoch)
    return places


def check_logs(brokers: Brokers, places: Mapping[Partition, Place]) -> None:
    """Raises RecoveryError if one of the logs was truncated below the place. Other errors as of `Brokers`."""
    cut = brokers.truncated(places) if places else {}
    for partition, said in sorted(cut.items()):
        raise RecoveryError(
            f"partition {path_of(partition)} was truncated below offset {places[partition].offset}, where the source "
            "stands: the brokers have lost messages that they had (an unclean election of a leader, or a lost disk), "
            f"and new ones get the same offsets. Nothing was read. Kafka's client says: {said}. Take topic "
            f"{partition[0]} out of this source, and give it a source of its own under a new name, which reads it from "
            "its beginning; messages from before that the brokers still have are then in the table twice."
        )
