"""The checkpoint of a source that reads topics: next offsets by partition, in each Delta commit, and its JSON."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from blizzard.errors import PermanentError, UnreadableState
from blizzard.state.identity import SourceIdentity
from blizzard.storage import json_fields

KIND = "topics"
SCHEMA_VERSION = 1

Partition = tuple[str, int]
"""A topic's name, and the number of one of its partitions."""


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """How far a topic is read. `topic_id`: the brokers' own id of the topic, which another topic of the same name does
    not have. `next_offsets`: by partition the offset of the next message to read. `first_offsets`: where the source
    began; without those of partitions of which that is not known. `leader_epochs`: which epoch of its leader each
    partition had when it was last found to have what was read; without those of partitions of which that is not known.
    """

    topic_id: str
    next_offsets: Mapping[int, int]
    first_offsets: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    leader_epochs: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class TopicCheckpoint:
    """The state of one source after commit `sequence`, which is also its Txn version in the Delta log."""

    pipeline: str
    source: str
    sequence: int = -1
    delta_version: int = -1
    """A version that the table had before the commit."""
    cluster_id: str | None = None
    """The brokers' own id of their cluster. None: the source has not looked at it yet."""
    topics: Mapping[str, TopicPosition] = field(default_factory=lambda: MappingProxyType({}))
    receipt: str | None = None
    schema_change: str | None = None
    last_update_ts: float | None = None
    waiting: int | None = field(default=None, compare=False)
    """Offsets that were still to be read behind this commit, as its plan saw them. None: not known. For people and
    metrics, not part of the state."""
    moved: Mapping[Partition, int] = field(default_factory=lambda: MappingProxyType({}), compare=False)
    """The partitions that this commit has moved, with their next offsets. Not part of the state."""
    taken_over: str | None = None
    """The app id of kafka-delta-ingest behind whose offsets the source has begun; "" if it has not. None: a version
    began it that did not write this down."""

    def next_offset(self, partition: Partition) -> int | None:
        """None: the partition is not known yet."""
        position = self.topics.get(partition[0])
        return None if position is None else position.next_offsets.get(partition[1])


def partition_app_id(identity: SourceIdentity, partition: Partition) -> str:
    """The app id of the Txn that says how far a partition is read: its version is the last offset of a commit."""
    return f"{identity.app_id}:{partition[0]}:{partition[1]}"


def partition_of_app_id(identity: SourceIdentity, app_id: str) -> Partition | None:
    """The inverse of `partition_app_id`; None for another app id. No topic has a colon in its name."""
    prefix = f"{identity.app_id}:"
    topic, _, number = app_id.removeprefix(prefix).rpartition(":")
    is_one = app_id.startswith(prefix) and topic and ":" not in topic and number.isascii() and number.isdigit()
    return (topic, int(number)) if is_one else None


def path_of(partition: Partition) -> str:
    """How rows (`_source.file`), receipts and dead letters name the partition."""
    return f"{partition[0]}/{partition[1]}"


def partition_of_path(path: str) -> Partition | None:
    topic, _, number = path.rpartition("/")
    return (topic, int(number)) if topic and number.isascii() and number.isdigit() else None


def further_txns(identity: SourceIdentity, checkpoint: TopicCheckpoint) -> dict[str, int]:
    """A partition whose first message is still to be read has none: a Txn version is 0 at least."""
    return {partition_app_id(identity, each): end - 1 for each, end in checkpoint.moved.items() if end > 0}


def next_offsets_of_txns(identity: SourceIdentity, txns: Iterable[tuple[str, int]]) -> Iterator[tuple[Partition, int]]:
    """The positions that the Txns of a table tell, from their app ids and versions."""
    for app_id, version in txns:
        partition = partition_of_app_id(identity, app_id)
        if partition is not None:
            yield partition, version + 1


def encode(checkpoint: TopicCheckpoint) -> str:
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "pipeline": checkpoint.pipeline,
        "source": checkpoint.source,
        "sequence": checkpoint.sequence,
        "delta_version": checkpoint.delta_version,
        "cluster_id": checkpoint.cluster_id,
        "topics": {
            name: {
                "id": topic.topic_id,
                "next_offsets": _by_number(topic.next_offsets),
                "first_offsets": _by_number(topic.first_offsets),
                "leader_epochs": _by_number(topic.leader_epochs),
            }
            for name, topic in sorted(checkpoint.topics.items())
        },
        "receipt": checkpoint.receipt,
        "last_update_ts": checkpoint.last_update_ts,
        "waiting": checkpoint.waiting,
    }
    if checkpoint.schema_change is not None:
        document["schema_change"] = checkpoint.schema_change
    if checkpoint.taken_over is not None:
        document["taken_over"] = checkpoint.taken_over
    return json.dumps(document, separators=(",", ":"))


def decode(text: str | bytes, *, pipeline: str, source: str) -> TopicCheckpoint:
    """Raises UnreadableState, also for a checkpoint of another source; PermanentError for one of a source of files."""
    try:
        document = json_fields.mapping(json.loads(text))
    except json_fields.MALFORMED as error:
        raise UnreadableState(f"the checkpoint is no JSON object ({error!s:.200})") from error
    try:
        found = (document["pipeline"], document["source"])
        if found != (pipeline, source):
            raise UnreadableState(f"the checkpoint belongs to {found!r:.200}; expected {(pipeline, source)}")
        if document.get("kind") != KIND:
            raise PermanentError(
                f"the table has the state of source {pipeline}:{source} as one of files, and its configuration has "
                "the block `kafka`. Nothing was read. Give the source that reads topics another name."
            )
        version = json_fields.natural(document["schema_version"])
        if version > SCHEMA_VERSION:
            raise UnreadableState(
                f"the checkpoint has schema version {version}; this program reads up to {SCHEMA_VERSION}. "
                "Upgrade blizzard on every machine that runs it."
            )
        return TopicCheckpoint(
            pipeline,
            source,
            json_fields.natural(document["sequence"]),
            json_fields.integer(document["delta_version"]),
            json_fields.optional_text(document["cluster_id"]),
            MappingProxyType({name: _position(topic) for name, topic in document["topics"].items()}),
            json_fields.optional_text(document["receipt"]),
            json_fields.optional_text(document.get("schema_change")),
            json_fields.optional_number(document["last_update_ts"]),
            None if document.get("waiting") is None else json_fields.natural(document["waiting"]),
            taken_over=json_fields.optional_text(document.get("taken_over")),
        )
    except json_fields.MALFORMED as error:
        raise UnreadableState(f"the checkpoint cannot be read ({type(error).__name__}: {error!s:.200})") from error


def _position(topic: Any) -> TopicPosition:
    offsets = (_numbers(topic["next_offsets"]), _numbers(topic["first_offsets"]))
    return TopicPosition(json_fields.text(topic["id"]), *offsets, _numbers(topic.get("leader_epochs", {})))


def _numbers(found: Any) -> Mapping[int, int]:
    by_number = json_fields.mapping(found)
    return MappingProxyType({int(number): json_fields.natural(at) for number, at in by_number.items()})


def _by_number(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(number): at for number, at in sorted(offsets.items())}
