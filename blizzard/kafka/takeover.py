"""Tables that kafka-delta-ingest has filled: its offsets are Txns, one for each partition of its only topic."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

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

LOOK_SECS = 300.0
"""Between two looks of a job whether others have written what its source has taken over."""
_BY_MISTAKE = "docs/kafka.md#an-app-id-that-the-wrong-source-has-taken-over says how to correct that"

Offsets = Mapping[str, Mapping[int, int]]
"""By app id, the last offset of each partition."""


@dataclass(slots=True)
class Takers:
    """`known`: by app id, the source that has taken it over, and for which topic. `unknown`: sources whose states
    cannot be read."""

    known: dict[str, tuple[str, str]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


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
    takers = _takers(store, txns, found) if found else Takers()
    if options.take_over is None:
        if unclear := {app_id: last for app_id, last in found.items() if app_id not in takers.known}:
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
    if options.take_over in takers.known:
        raise RecoveryError(_taken_already(options.take_over, takers.known[options.take_over], source_id, topic))
    if takers.unknown:
        raise RecoveryError(_perhaps_taken(options.take_over, takers.unknown[0], source_id))
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
            f"beginning. Nothing was read. If the offsets are of {topic}: {_BY_MISTAKE}. If not, take `take_over` out "
            "of the source."
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
    twice = {}
    for number, offset in sorted(last.items()):
        first = position.first_offsets.get(number)
        if first is None and number not in position.next_offsets:
            first = 0  # a partition that is new to the source
        if first is not None and offset >= first:
            twice[number] = first
    if not twice:
        return
    shown = "; ".join(
        f"Txn {options.take_over}-{number} has offset {last[number]} ("
        f"{f'expected at most {first - 1}' if first else 'expected no such Txn'}), so that offsets "
        f"{first} to {last[number]} of {path_of((topic, number))} are of both"
        for number, first in twice.items()
    )
    raise RecoveryError(
        f"kafka-delta-ingest has written to the table since source {source_id} has taken over its offsets: {shown}. "
        "What the source has read of them is in the table twice. Nothing more was read. Stop kafka-delta-ingest, then "
        "take `take_over` out of the source, which goes on where it stands; "
        "docs/kafka.md#kafka-delta-ingest-has-written-on says how to find and delete the doubled rows."
    )


def check_only_taker(
    checkpoint: TopicCheckpoint, store: ObjectStore, txns: Iterable[Txn], options: KafkaOptions, source_id: str
) -> None:
    """`store`: the table's, with its Txns. Raises RecoveryError if another source has taken the same app id over, as
    where both began at the same time."""
    app_id = options.app_id_to_take_over
    if app_id is None or checkpoint.taken_over != app_id:
        return
    for other_id, other in states_of_sources(store, txns):
        if other is not None and other_id != source_id and other.taken_over == app_id:
            topics = min(checkpoint.topics), min(other.topics)
            raise RecoveryError(
                f"sources {source_id} and {other_id} of the table have both taken over the offsets of {app_id!r}, for "
                f"topics {topics[0]} and {topics[1]} (expected one of them: the offsets are of one topic, and the "
                "other source has passed its first messages by). Nothing more was read. Take `take_over` out of the "
                f"source whose topic it is, which goes on where it stands. For the other one: {_BY_MISTAKE}."
            )


def check_since(
    checkpoint: TopicCheckpoint, store: ObjectStore, txns: Collection[Txn], options: KafkaOptions, source_id: str
) -> None:
    """What others have written since the source has taken over. `store`: the table's, with its Txns. Raises
    RecoveryError."""
    check_not_written_on(checkpoint, txns, options, source_id)
    check_only_taker(checkpoint, store, txns, options, source_id)


class TakeoverWatch:
    """Looks for what others have written since a source has taken over. `store`: the table's; `clock` gives Unix
    seconds."""

    def __init__(self, source_id: str, options: KafkaOptions, store: ObjectStore, clock: Callable[[], float]) -> None:
        self._source_id, self._options, self._store, self._clock = source_id, options, store, clock
        self._next_ts = 0.0

    def check(self, checkpoint: TopicCheckpoint, ask_txns: Callable[[], Collection[Txn]]) -> None:
        """`ask_txns`: for those of the table, which takes long enough to do it only every LOOK_SECS. Raises
        RecoveryError."""
        check_still_taken_over(checkpoint, self._options, self._source_id)
        now_ts = self._clock()
        if self._options.app_id_to_take_over is None or now_ts < self._next_ts:
            return
        check_since(checkpoint, self._store, ask_txns(), self._options, self._source_id)
        self._next_ts = now_ts + LOOK_SECS


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


def _takers(store: ObjectStore, txns: Iterable[Txn], found: Offsets) -> Takers:
    """A state of an earlier version, which does not name an app id, tells it by where the source began, unless that is
    behind several."""
    takers = Takers()
    for source_id, checkpoint in states_of_sources(store, txns):
        if checkpoint is None:
            takers.unknown.append(source_id)
            continue
        begun = {app_id: topic for app_id, last in found.items() if (topic := _begun_behind(checkpoint, last))}
        if checkpoint.taken_over is None and len(begun) == 1:
            [(app_id, topic)] = begun.items()
            takers.known.setdefault(app_id, (source_id, topic))
        elif checkpoint.taken_over:
            app_id = checkpoint.taken_over
            takers.known.setdefault(app_id, (source_id, begun.get(app_id) or min(checkpoint.topics)))
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


def _perhaps_taken(app_id: str, other_id: str, source_id: str) -> str:
    return (
        f"`kafka.take_over` of source {source_id} is {app_id!r}, and the state of source {other_id} of the table "
        "cannot be read (expected one that says whether it has taken these offsets over). Nothing was read. Run "
        f"{other_id} first, which repairs its state; `blizzard rebuild` does it, too."
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
        "else. If another source of this table takes them over, let that one begin first, and run this one again."
    )
