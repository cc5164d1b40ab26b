"""What sources have read that are not configured, such as this one under its former name: who begins beside them reads
the same messages again."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from blizzard.config import source_names
from blizzard.config.kafka_options import NOTHING
from blizzard.errors import RecoveryError, UnreadableState
from blizzard.kafka.brokers import Cluster
from blizzard.kafka.table_state import topic_state
from blizzard.state.identity import SourceIdentity, source_of_app_id
from blizzard.state.topic_checkpoint import TopicCheckpoint, partition_of_app_id, partition_of_path
from blizzard.state.txns import Txn
from blizzard.storage.base import ObjectStore


@dataclass(frozen=True, slots=True)
class FormerTopic:
    """A topic of which the table has messages. `topic_id` None: it does not tell the id any more."""

    source_id: str
    topic: str
    topic_id: str | None


def former_topics(
    store: ObjectStore, txns: Iterable[Txn], rows: Iterable[tuple[str, str, str]], configured: Collection[str]
) -> list[FormerTopic]:
    """`store`: the table's, with its Txns. `rows`: source, path and etag of rows. `configured`: ids of sources, which
    are left out. Errors as of storage, and LogDamaged."""
    by_source = {each: topics for each, topics in _topics_of_txns(txns).items() if each not in configured}
    found = dict[FormerTopic, None]()
    for source_id, path, etag in rows:
        partition = partition_of_path(path)
        if partition is not None and source_id not in configured:
            found[FormerTopic(source_id, partition[0], etag)] = None
    told = {(each.source_id, each.topic) for each in found}
    for source_id, topics in sorted(by_source.items()):
        ids = _ids(store, source_id)
        untold = sorted(topic for topic in topics if topic in ids or (source_id, topic) not in told)
        found.update(dict.fromkeys(FormerTopic(source_id, topic, ids.get(topic)) for topic in untold))
    return [*found]


def check_not_renamed(former: Iterable[FormerTopic], cluster: Cluster, source_id: str) -> None:
    """`cluster`: with the topics that the source would begin to read. Raises RecoveryError if one of them is a topic of
    `former`. One that was made again since is another one."""
    for each in former:
        topic = cluster.topics.get(each.topic)
        if topic is not None and each.topic_id in (None, topic.topic_id):
            raise RecoveryError(
                f"the table has messages of topic {each.topic} (id {each.topic_id or 'unknown'}) by source "
                f"{each.source_id}, which the pipeline does not have, and source {source_id} has read nothing "
                "yet: beginning afresh, at `start`, would double their rows or pass messages by. Expected the source "
                "under the name by which the table knows it. Nothing was read. If the pipeline or the source was "
                "renamed, give it its former name back, and it goes on where it stands; or write to another table. If "
                "the messages are wanted once more, or are others, as after a log that was truncated: write "
                f"`take_over: {NOTHING}` into `kafka` of the source, and it begins at `start`."
            )


def states_of_sources(store: ObjectStore, txns: Iterable[Txn]) -> Iterator[tuple[str, TopicCheckpoint | None]]:
    """The newest states of all sources of topics, by their ids; None for those that cannot be read. `store`: the
    table's, with its Txns. Errors as of storage."""
    return ((source_id, _state(store, source_id)) for source_id in sorted(_topics_of_txns(txns)))


def _topics_of_txns(txns: Iterable[Txn]) -> Mapping[str, set[str]]:
    """By the ids of sources of topics, the topics of their partitions."""
    found: dict[str, set[str]] = {}
    for txn in txns:
        source_id = source_of_app_id(txn.app_id)
        partition = None if source_id is None else partition_of_app_id(_identity(source_id), txn.app_id)
        if source_id is not None and partition is not None:
            found.setdefault(source_id, set()).add(partition[0])
    return found


def _identity(source_id: str) -> SourceIdentity:
    pipeline, _, source = source_id.partition(":")
    return SourceIdentity(pipeline, source, source_names.state_prefix(pipeline, source))


def _ids(store: ObjectStore, source_id: str) -> Mapping[str, str]:
    """Of the topics that it has read, as its newest checkpoint has them."""
    checkpoint = _state(store, source_id)
    return {} if checkpoint is None else {name: topic.topic_id for name, topic in checkpoint.topics.items()}


def _state(store: ObjectStore, source_id: str) -> TopicCheckpoint | None:
    """None as well for one that cannot be read."""
    with suppress(UnreadableState):
        return topic_state(store, _identity(source_id)).checkpoint
    return None
