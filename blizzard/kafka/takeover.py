"""Tables that kafka-delta-ingest has filled: its offsets are Txns, one for each partition of its only topic."""

import re
from collections.abc import Collection, Iterable, Mapping

from blizzard.config.kafka_options import NOTHING, KafkaOptions
from blizzard.errors import RecoveryError
from blizzard.kafka.brokers import Brokers, Cluster
from blizzard.kafka.former_sources import states_of_sources
from blizzard.state.checkpoint import COMMITTER_APP_ID_PREFIX
from blizzard.state.identity import APP_ID_PREFIX
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint, path_of
from blizzard.state.txns import Txn
from blizzard.storage.base import ObjectStore

_APP_ID = re.compile(r"(?P<app_id>.+)-(?P<partition>[0-9]{1,6})\Z", re.DOTALL)
_OURS = (APP_ID_PREFIX, COMMITTER_APP_ID_PREFIX)

_BY_MISTAKE = "docs/kafka.md#an-app-id-that-the-wrong-source-has-taken-over says how to correct that"

Offsets = Mapping[str, Mapping[int, int]]
"""By app id, the last offset of each partition."""


def taken_over(
    store: ObjectStore, txns: Collection[Txn], options: KafkaOptions, source_id: str
) -> dict[Partition, int]:
    """Next offsets of the partitions that kafka-delta-ingest has read. Empty: the table has nothing of it that no other
    source has taken over, or the source says that this does not matter. `store`: the table's, with its Txns. Raises
    RecoveryError for Txns of which the source says nothing, or of which it names another app id, or one that another
    source has taken over."""
    if options.take_over == NOTHING:
        return {}
    found = _by_app_id(txns)
    takers = _takers(store, txns, found) if found else {}
    if options.take_over is None:
        if unclear := {app_id: last for app_id, last in found.items() if app_id not in takers}:
            raise RecoveryError(_unclear(unclear, source_id))
        return {}
    if options.take_over not in found:
        there = ", ".join(sorted(found)) or "none"
        raise RecoveryError(
            f"`kafka.take_over` of source {source_id} is {options.take_over!r}, and the table has no Txn of that app "
            f"id (expected {options.take_over}-0 and so on; found app ids: {there}). Nothing was read. Correct it; or "
            f"write `take_over: {NOTHING}`, and the source begins at `start`."
        )
    [topic] = options.topics or [""]  # as the configuration has checked
    if options.take_over in takers:
        raise RecoveryError(_taken_already(options.take_over, takers[options.take_over], source_id, topic))
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
    if options.app_id_to_take_over is None or not checkpoint.topics:
        return
    [topic] = options.topics or [""]
    if topic not in checkpoint.topics:
        raise RecoveryError(
            f"source {source_id} has `take_over: {options.take_over}` and topic {topic}, and has taken over "
            f"these offsets for topic {min(checkpoint.topics)} (expected the same one): it would read {topic} from its "
            f"beginning. Nothing was read. Take `take_over` out of the source. If the offsets are of {topic}: "
            f"{_BY_MISTAKE}."
        )


def check_not_written_on(
    checkpoint: TopicCheckpoint, txns: Iterable[Txn], options: KafkaOptions, source_id: str
) -> None:
    """`txns`: those of the table. Raises RecoveryError if kafka-delta-ingest has written since the source has taken it
    over: both have read these messages, or the source is going to."""
    [topic] = options.topics or [""]
    position = checkpoint.topics.get(topic)
    if options.app_id_to_take_over is None or position is None:
        return
    last = _by_app_id(txns).get(options.app_id_to_take_over, {})
    unknown = dict.fromkeys(position.next_offsets.keys() - position.first_offsets.keys())
    firsts = {number: {**position.first_offsets, **unknown}.get(number, 0) for number in last}
    twice = {number: first for number, first in sorted(firsts.items()) if first is not None and last[number] >= first}
    if not twice:
        return
    shown = "; ".join(
        f"Txn {options.take_over}-{number} has offset {last[number]} (expected at most {first - 1}), so that offsets "
        f"{first} to {last[number]} of {path_of((topic, number))} are of both"
        for number, first in twice.items()
    )
    raise RecoveryError(
        f"kafka-delta-ingest has written to the table since source {source_id} has taken over its offsets: {shown}. "
        "What the source has read of them is in the table twice. Nothing more was read. Stop kafka-delta-ingest, then "
        "take `take_over` out of the source, which goes on where it stands; "
        "docs/kafka.md#kafka-delta-ingest-has-written-on says how to find and delete the doubled rows."
    )


def _shown(numbers: Iterable[int]) -> str:
    found = sorted(numbers)
    return f"{found[0]} to {found[-1]}" if found else "as there is no such topic"


def _by_app_id(txns: Iterable[Txn]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for txn in txns:
        match = _APP_ID.match(txn.app_id)
        if match is not None and not txn.app_id.startswith(_OURS):
            found.setdefault(match["app_id"], {})[int(match["partition"])] = txn.version
    return found


def _takers(store: ObjectStore, txns: Iterable[Txn], found: Offsets) -> dict[str, tuple[str, str]]:
    """By app id, the source that has taken it over, and for which topic. A state that does not name it, as those of
    earlier versions do not, tells it by where the source began, unless that is behind several."""
    takers: dict[str, tuple[str, str]] = {}
    for source_id, checkpoint in states_of_sources(store, txns):
        begun = {app_id: topic for app_id, last in found.items() if (topic := _begun_behind(checkpoint, last))}
        app_id = checkpoint.taken_over
        if app_id is not None:
            begun = {app_id: begun.get(app_id) or min(checkpoint.topics)}
        if len(begun) == 1:
            takers = {each: (source_id, topic) for each, topic in begun.items()} | takers
    return takers


def _begun_behind(checkpoint: TopicCheckpoint, last: Mapping[int, int]) -> str | None:
    """The topic that a source has begun exactly behind all of these offsets."""
    behind = {(number, offset + 1) for number, offset in last.items()}
    return next((name for name, one in checkpoint.topics.items() if behind <= {*one.first_offsets.items()}), None)


def _taken_already(app_id: str, taker: tuple[str, str], source_id: str, topic: str) -> str:
    return (
        f"`kafka.take_over` of source {source_id} is {app_id!r}, and source {taker[0]} of the table has taken over "
        f"its offsets for topic {taker[1]} (expected an app id that no source has taken over). Behind them {source_id} "
        f"would pass messages of topic {topic} by, or read them a second time. Nothing was read. Take `take_over` out "
        f"of {source_id}, and it begins at `start`; if it is {taker[0]} under a new name, give it its former name "
        f"back. If the offsets are of {topic}, and {taker[0]} has the wrong topic: {_BY_MISTAKE}."
    )


def _unclear(found: Offsets, source_id: str) -> str:
    app_ids = sorted(found)
    shown = ", ".join(f"{app_id!r} with {len(found[app_id])} partitions" for app_id in app_ids)
    lines = " or ".join(f"`take_over: {app_id}`" for app_id in app_ids)
    choice = ", the app id of its topic" if len(app_ids) > 1 else ""
    return (
        f"the table has Txns as kafka-delta-ingest writes them (app id {shown}), and source {source_id} has read "
        f"nothing yet: beginning afresh could double their rows. Nothing was read. Write {lines} into `kafka` of the "
        f"source{choice}, and it goes on behind these offsets; or `take_over: {NOTHING}`, if they are of something "
        "else."
    )
