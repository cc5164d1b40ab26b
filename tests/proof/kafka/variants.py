"""Jobs that are broken on purpose, to show that the campaign would find it."""

import time
from array import array
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from blizzard.audit.topic_partitions import PartitionJudge
from blizzard.kafka.schema_registry import NoSchema, SchemaRegistry
from spark_job.loop.commit import BatchCommitter
from spark_job.loop.topics import source as topic_source
from spark_job.loop.topics.source import TopicSource
from tests.proof.campaign import Fault

NO_PARTITION_TXNS = "commits have no Txns of the partitions"
ONE_TOO_LATE = "a range begins one message too late"
LOST_IS_WON = "a commit that lost its race counts as made"
READ_UNCOMMITTED = "messages of aborted transactions are read"
LATE_LETTERS = "letters of bad messages are put after the commit"
SILENT_GAP = "messages that are gone are passed in silence"
BLIND_AUDIT = "an audit does not look at the messages"

CUT_IS_PASSED = "a log that was truncated is read on"
OUTAGE_IS_FAULT = "messages are refused whose schema the registry does not give now"

LETTERS_WAIT = "letters_wait"
"""What a job of LATE_LETTERS logs after a commit whose letters are not yet stored."""
SLOW_SECS = 2.0
"""How long it then leaves to be killed, as a slow store would."""
RACE_SECS = 0.3
"""How long each job of LOST_IS_WON has read before it commits: another that began meanwhile has planned the same."""


def no_partition_txns() -> None:
    topic_source.further_txns = lambda identity, checkpoint: {}  # type: ignore[attr-defined]


def one_too_late() -> None:
    planned = topic_source._range

    def later(checkpoint: Any, partition: Any, count: int) -> Any:
        one = planned(checkpoint, partition, count)
        return replace(one, start=one.start + 1) if one.length > 1 else one

    topic_source._range = later


def lost_is_won() -> None:
    landed = BatchCommitter._landed

    def always(self: BatchCommitter, checkpoint: Any, text: str) -> bool:
        landed(self, checkpoint, text)
        return True

    commit = BatchCommitter.commit

    def late(self: BatchCommitter, *batch: Any) -> bool:
        time.sleep(RACE_SECS)
        return commit(self, *batch)

    BatchCommitter._landed = always  # type: ignore[method-assign]
    BatchCommitter.commit = late  # type: ignore[method-assign]


def read_uncommitted() -> None:
    from spark_job import topic_wiring

    made = topic_wiring.TopicSettings
    topic_wiring.TopicSettings = lambda client, _, *more: made(client, "read_uncommitted", *more)  # type: ignore[misc, assignment]


def late_letters() -> None:
    from spark_job.tasks.reader import BatchRows

    write, waiting = BatchRows.write_dead_records, list[Any]()
    BatchRows.write_dead_records = lambda self, attempt="": waiting.append(self)  # type: ignore[method-assign]
    BatchRows.release = lambda self: None  # type: ignore[method-assign]
    publish = TopicSource.publish

    def after(self: TopicSource, checkpoint: Any, *, copy: bool) -> None:
        publish(self, checkpoint, copy=copy)
        if waiting:
            self._log(LETTERS_WAIT, source=self._identity.source_id)
            time.sleep(SLOW_SECS)
        while waiting:
            write(waiting.pop())

    TopicSource.publish = after  # type: ignore[method-assign]


def silent_gap() -> None:
    TopicSource._write_gaps = lambda self, gaps, attempt: None  # type: ignore[method-assign]


def blind_audit() -> None:
    judge = PartitionJudge.judge
    PartitionJudge.judge = lambda self, plan, messages: judge(self, plan, array("q"))  # type: ignore[method-assign]


def cut_is_passed() -> None:
    topic_source.check_logs = lambda brokers, places: None  # type: ignore[attr-defined]


def outage_is_fault() -> None:
    """Of the tasks in the job's own process."""

    def refuse(self: SchemaRegistry, code: int, body: bytes) -> None:
        raise NoSchema(f"{code} {body!r}")

    SchemaRegistry._refuse = refuse  # type: ignore[method-assign, assignment]


BREAKS: Mapping[str, Callable[[], None]] = {
    NO_PARTITION_TXNS: no_partition_txns,
    ONE_TOO_LATE: one_too_late,
    LOST_IS_WON: lost_is_won,
    READ_UNCOMMITTED: read_uncommitted,
    LATE_LETTERS: late_letters,
    SILENT_GAP: silent_gap,
    BLIND_AUDIT: blind_audit,
    CUT_IS_PASSED: cut_is_passed,
    OUTAGE_IS_FAULT: outage_is_fault,
}
FAULTS: Mapping[str, Fault] = {
    NO_PARTITION_TXNS: Fault("a lost state is rebuilt without positions, and rows are doubled", "^doubled"),
    ONE_TOO_LATE: Fault("the first message of each range is in no row", "^missing"),
    LOST_IS_WON: Fault("a batch that another job was faster to commit is gone", "^missing"),
    READ_UNCOMMITTED: Fault("rows hold messages that were never committed", "^nobody's"),
    LATE_LETTERS: Fault("a job dies between commit and letters, and bad messages are nowhere", "^missing"),
    SILENT_GAP: Fault("messages that retention took are in no row, and no letter says so", "^missing"),
    BLIND_AUDIT: Fault("a row that was taken out is not missing", "^audit: .* was taken out, and not missed"),
}
