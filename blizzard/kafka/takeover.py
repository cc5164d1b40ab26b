"""Tables that kafka-delta-ingest has filled: its offsets are Txns, one for each partition of its only topic."""

import re
from collections.abc import Iterable, Mapping

from blizzard.config.kafka_options import NOTHING, KafkaOptions
from blizzard.errors import RecoveryError
from blizzard.kafka.brokers import Brokers, Cluster
from blizzard.state.checkpoint import COMMITTER_APP_ID_PREFIX
from blizzard.state.identity import APP_ID_PREFIX
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint, path_of
from blizzard.state.txns import Txn

_APP_ID = re.compile(r"(?P<app_id>.+)-(?P<partition>[0-9]{1,6})\Z", re.DOTALL)
_OURS = (APP_ID_PREFIX, COMMITTER_APP_ID_PREFIX)


def taken_over(txns: Iterable[Txn], options: KafkaOptions, source_id: str) -> dict[Partition, int]:
    """Next offsets of the partitions that kafka-delta-ingest has read. Empty: the table has nothing of it, or the
    source says that this does not matter. Raises RecoveryError for Txns of which the source says nothing, or of which
    it names another app id."""
    if options.take_over == NOTHING:
        return {}
    found = _by_app_id(txns)
    if options.take_over is None:
        if found:
            raise RecoveryError(_unclear(found, source_id))
        return {}
    if options.take_over not in found:
        there = ", ".join(sorted(found)) or "none"
        raise RecoveryError(
            f"`kafka.take_over` of source {source_id} is {options.take_over!r}, and the table has no Txn of that app "
            f"id (expected {options.take_over}-0 and so on; found app ids: {there}). Nothing was read. Correct it; or "
            f"write `take_over: {NOTHING}`, and the source begins at `start`."
        )
    [topic] = options.topics or [""]  # as the configuration has checked
    return {(topic, number): last + 1 for number, last in found[options.take_over].items()}


def has_been_filled_by_another(txns: Iterable[Txn]) -> bool:
    """Whether kafka-delta-ingest has written to the table."""
    return bool(_by_app_id(txns))


def check_taken_over(taken: Mapping[Partition, int], brokers: Brokers, cluster: Cluster, options: KafkaOptions) -> None:
    """Before these next offsets are committed: raises RecoveryError if they cannot be of the topic, which then lacks a
    partition or ends before them. It may have further partitions, of which kafka-delta-ingest has read nothing."""
    wrong = (
        f"Are `kafka.topics` or `take_over: {options.take_over}` of something else? Nothing was read or committed. "
        "Correct them."
    )
    for name, number in sorted(taken):
        numbers = cluster.topics[name].partitions if name in cluster.topics else ()
        if number not in numbers:
            raise RecoveryError(
                f"the table has Txn {options.take_over}-{number}, and topic {name} has no partition {number} "
                f"(expected one; found {len(numbers)} partitions, {_shown(numbers)}). {wrong}"
            )
    for partition, end in sorted(brokers.end_offsets([*taken]).items()):
        if end < taken[partition]:
            raise RecoveryError(
                f"the table has Txn {options.take_over}-{partition[1]} with offset {taken[partition] - 1}, and "
                f"{path_of(partition)} ends before it: the next message gets offset {end} (expected "
                f"{taken[partition]} or more). {wrong}"
            )


def check_still_taken_over(checkpoint: TopicCheckpoint, options: KafkaOptions, source_id: str) -> None:
    """Raises RecoveryError if the source names a topic to take over, and has begun with another one: the offsets of the
    table would be of this one, which would be read from its beginning."""
    if options.take_over in (None, NOTHING) or not checkpoint.topics:
        return
    [topic] = options.topics or [""]
    if topic not in checkpoint.topics:
        raise RecoveryError(
            f"source {source_id} has `take_over: {options.take_over}` and topic {topic}, and has taken over "
            f"these offsets for topic {min(checkpoint.topics)} (expected the same one): it would read {topic} from its "
            f"beginning. Nothing was read. If the offsets are of {topic}, give it a source of its own, under a new "
            f"name, with `take_over: {options.take_over}`. If not, take `take_over` out of the source."
        )


def _shown(numbers: Iterable[int]) -> str:
    found = sorted(numbers)
    return f"{found[0]} to {found[-1]}" if found else "as there is no such topic"


def _by_app_id(txns: Iterable[Txn]) -> dict[str, dict[int, int]]:
    """By app id, the last offset of each partition."""
    found: dict[str, dict[int, int]] = {}
    for txn in txns:
        match = _APP_ID.match(txn.app_id)
        if match is not None and not txn.app_id.startswith(_OURS):
            found.setdefault(match["app_id"], {})[int(match["partition"])] = txn.version
    return found


def _unclear(found: Mapping[str, Mapping[int, int]], source_id: str) -> str:
    app_id, partitions = max(found.items(), key=lambda each: len(each[1]))
    return (
        f"the table has Txns as kafka-delta-ingest writes them (app id {app_id!r}, {len(partitions)} partitions), and "
        f"source {source_id} has read nothing yet: beginning afresh could double their rows. Nothing was read. Write "
        f"`take_over: {app_id}` into `kafka` of the source, and it goes on behind these offsets; or `take_over: "
        f"{NOTHING}`, if they are of something else."
    )
