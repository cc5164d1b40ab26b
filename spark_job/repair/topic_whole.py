"""Which partitions of topics can be read again whole: the brokers still have a message for each row of the table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from blizzard.audit.topic_report import PartitionAudit, TopicAuditReport
from blizzard.audit.topics import AuditedTopics, audit_topics
from blizzard.errors import RetryableError
from blizzard.kafka.table_state import topic_state
from blizzard.state.topic_checkpoint import TopicCheckpoint, path_of


@dataclass(frozen=True, slots=True)
class WholePartition:
    """`messages`: how many the brokers have from `first` (inclusive) to `end` (exclusive), where the source stands."""

    topic: str
    number: int
    topic_id: str
    first: int
    end: int
    messages: int


Known = Mapping[str, WholePartition | str]
"""By path; or why the partition cannot be read again whole. Those without rows and messages are left out."""


class WholePartitions:
    """Of one source; asked of the table and the brokers again for each commit of the source. `matches`: of paths."""

    def __init__(self, source: AuditedTopics, matches: Callable[[str], bool], clock: Callable[[], float]) -> None:
        self._source = source
        self._matches = matches
        self._clock = clock
        self._known: tuple[int, Known] | None = None

    def newest(self) -> Known:
        """Errors as of `audit_topics`; RetryableError if a commit of the source came meanwhile."""
        self.forget()
        state = topic_state(self._source.state, self._source.identity)
        return {} if state.checkpoint is None else self.at(state.checkpoint)

    def at(self, checkpoint: TopicCheckpoint) -> Known:
        """As `newest`. `checkpoint`: of the newest commit."""
        if self._known is None or self._known[0] != checkpoint.sequence:
            report = audit_topics(self._source, clock=self._clock, progress=lambda step, done, total: None)
            now = topic_state(self._source.state, self._source.identity).checkpoint
            if now is None or now.sequence != checkpoint.sequence:
                raise RetryableError("another job has committed while the partitions were looked at")
            self._known = checkpoint.sequence, _judged(checkpoint, report, self._matches)
        return self._known[1]

    def forget(self) -> None:
        self._known = None


def _judged(checkpoint: TopicCheckpoint, report: TopicAuditReport, matches: Callable[[str], bool]) -> Known:
    audited = {path_of((one.topic, one.partition)): one for one in report.partitions}
    found: dict[str, WholePartition | str] = {}
    for name, position in checkpoint.topics.items():
        for number in position.next_offsets:
            path = path_of((name, number))
            if not matches(path):
                continue
            verdict = _verdict(audited.get(path), report, position.topic_id)
            if verdict is not None:
                found[path] = verdict
    return found


def _verdict(one: PartitionAudit | None, report: TopicAuditReport, topic_id: str) -> WholePartition | str | None:
    """None: there is nothing of it."""
    compared = [notice.text for notice in report.notices if notice.kind in ("rows_not_compared", "another_cluster")]
    if compared:
        return compared[0]
    if one is None:
        return (
            "the brokers no longer have the messages that were read: its topic is gone or was made again, or its log "
            "was truncated, as `blizzard audit` says"
        )
    if report.changed:
        return f"the table has {report.changed} rows of another topic of this name"
    gone = one.older_rows + one.only_in_table
    if gone:
        return (
            f"of {gone} of its rows the brokers no longer have the messages (retention, compaction or deleted "
            f"records): the first offset that they have is {one.first_offset}"
        )
    if one.first_offset == one.next_offset:
        return None
    return WholePartition(one.topic, one.partition, topic_id, one.first_offset, one.next_offset, one.messages)
