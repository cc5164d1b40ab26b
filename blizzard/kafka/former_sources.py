"""What sources have read that are not configured, such as this one under its former name: who begins beside them reads
the same messages again."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from blizzard.config import source_names
from blizzard.config.kafka_options import NOTHING
from blizzard.errors import RecoveryError, UnreadableState
from blizzard.kafka.brokers import Cluster
from blizzard.kafka.table_state import topic_state
from blizzard.state.identity import SourceIdentity, source_of_app_id
from blizzard.state.topic_checkpoint import partition_of_app_id, partition_of_path
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
    by_source: dict[str, set[str]] = {}
    for txn in txns:
        source_id = source_of_app_id(txn.app_id)
        if source_id is not None and source_id not in configured:
            partition = partition_of_app_id(_identity(source_id), txn.app_id)
            by_source.setdefault(source_id, set()).update([] if partition is None else [partition[0]])
    found = dict[FormerTopic, None]()
    for source_id, path, etag in rows:
        partition = partition_of_path(path)
        if partition is not None and source_id not in configured:
            found[FormerTopic(source_id, partition[0], etag)] = None
    told = {(each.source_id, each.topic) for each in found}
    for source_id, topics in sorted(by_source.items()):
        ids = _ids(store, source_id) if topics else {}
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


def _identity(source_id: str) -> SourceIdentity:
    pipeline, _, source = source_id.partition(":")
    return SourceIdentity(pipeline, source, source_names.state_prefix(pipeline, source))


def _ids(store: ObjectStore, source_id: str) -> Mapping[str, str]:
    """Of the topics that it has read, as its newest checkpoint has them."""
    try:
        checkpoint = topic_state(store, _identity(source_id)).checkpoint
    except UnreadableState:
        return {}
    return {} if checkpoint is None else {name: topic.topic_id for name, topic in checkpoint.topics.items()}
