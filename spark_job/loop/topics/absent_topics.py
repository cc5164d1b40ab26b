"""Topics that a source does not read, and is expected to: the log says so once in a process, and after each change."""

from collections.abc import Mapping, Sequence

from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import BlizzardError
from blizzard.kafka.brokers import Brokers, Cluster
from blizzard.kafka.positions import topics_gone, topics_missing
from blizzard.log import Log
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint


class AbsentTopics:
    def __init__(self, source_id: str, options: KafkaOptions, brokers: Brokers, log: Log) -> None:
        self._source_id, self._options, self._brokers, self._log = source_id, options, brokers, log
        self._missing: Sequence[str] = ()
        self._gone: Sequence[str] = ()

    def note(self, checkpoint: TopicCheckpoint, cluster: Cluster, ends: Mapping[Partition, int]) -> None:
        """`ends`: of the plan before, in which the topics may still have been."""
        missing = topics_missing(self._options, cluster.topics.keys())
        if missing and missing != self._missing:
            self._log("topics_missing", source=self._source_id, topics=[*missing])
        self._missing = missing
        gone = topics_gone(self._options, checkpoint, cluster.topics.keys())
        if gone and gone != self._gone:
            unread = {name: self._unread(checkpoint, name, ends) for name in gone}
            self._log("topics_gone", source=self._source_id, topics=[*gone], unread=unread)
        self._gone = gone

    def _unread(self, checkpoint: TopicCheckpoint, topic: str, ends: Mapping[Partition, int]) -> int | None:
        """Offsets that were still to be read. None: nobody knows any more."""
        nexts = {(topic, number): at for number, at in checkpoint.topics[topic].next_offsets.items()}
        if not nexts.keys() <= ends.keys():
            if self._options.matches(topic):
                return None  # the brokers do not have it
            try:
                ends = self._brokers.end_offsets([*nexts])
            except BlizzardError:
                return None  # they do not have it either, or the user may not see it
        return sum(max(0, ends[partition] - at) for partition, at in nexts.items())
