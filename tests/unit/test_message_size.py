"""How many messages the next batch takes, by the size of those that were read before."""

from dataclasses import replace

import pytest

from blizzard.kafka.batch_limits import LARGEST_BYTES, BatchLimits
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.state.topic_checkpoint import TopicCheckpoint
from spark_job.loop.topics.message_size import after, bytes_each
from spark_job.ports.reader import Outcome
from tests.unit.strategies import STATE_PREFIX, memory_store

EMPTY = Outcome("t/0", "id", 0)
"""Of offsets that have no messages."""


def read(rows: int, size: int, dead_records: int = 0) -> Outcome:
    return Outcome("t/1", "id", size, rows, dead_records)


def test_the_first_messages_tell_their_size_however_few_of_the_offsets_have_one() -> None:
    assert after(None, 10, [read(8, 1000, 2), EMPTY]) == 100
    assert after(None, 1000, [read(8, 1000, 2), EMPTY]) == 100


def test_later_batches_tell_the_size_by_offset() -> None:
    assert after(100, 10, [read(10, 5000)]) == 500
    assert after(1000, 10, [read(5, 6000), EMPTY]) == 600


@pytest.mark.parametrize("outcome", [EMPTY, read(1, 1)])
def test_offsets_without_messages_do_not_make_the_next_batch_the_largest_one(outcome: Outcome) -> None:
    limits, before = BatchLimits(1_000_000, 1 << 30), 100_000.0
    counts = [limits.messages_of(before)]
    for _ in range(12):
        before = after(before, counts[-1], [outcome])
        counts.append(limits.messages_of(before))
    assert counts[:4] == [10_737, 21_474, 42_949, 85_899]
    assert counts[-1] == limits.messages, "but in the end it is: a large gap is passed soon"


def test_a_source_that_begins_with_offsets_without_messages_takes_more_each_time() -> None:
    assert after(None, 10, [EMPTY]) == LARGEST_BYTES / 2
    assert after(after(None, 10, [EMPTY]), 10, [EMPTY]) == LARGEST_BYTES / 4


def test_a_job_that_starts_passes_by_commits_without_messages() -> None:
    receipts = Receipts(memory_store(), STATE_PREFIX)
    name = None
    for sequence, (size, rows) in enumerate([(4000, 4), (0, 0), (0, 0)]):
        lines = [ReceiptLine("t/0", "id", size, rows, 0, 0.0)]
        name = receipts.put(
            sequence=sequence, attempt="a", previous=name, now_ts=0.0, lines=lines, offsets={"t/0": (0, 4)}
        ).name
    checkpoint = TopicCheckpoint("p", "s", sequence=2)
    assert bytes_each(receipts, replace(checkpoint, receipt=name)) == 1000
    assert bytes_each(receipts, checkpoint) is None
