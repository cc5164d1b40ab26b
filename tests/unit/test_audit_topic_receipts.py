"""What the receipts of a source of topics say of rows whose messages the brokers no longer have."""

import pyarrow as pa
import pytest

from blizzard.audit.topic_receipts import NOBODY_KNOWS, Brought, BroughtRange, brought_by_commits, compared
from blizzard.state.receipts import Offsets, ReceiptLine, Receipts, Repair
from blizzard.state.topic_checkpoint import TopicCheckpoint, TopicPosition
from blizzard.storage.memory import MemoryStore

KEY = ("clicks/0", "topic id")
Commit = tuple[ReceiptLine, Offsets]


def read(rows: int, first: int, end: int) -> Commit:
    return line(rows), {KEY[0]: (first, end)}


def line(rows: int, repair: str | None = None) -> ReceiptLine:
    return ReceiptLine(*KEY, 9, rows, 0, 1.0, finished=False, repair=repair)


def repaired(rows: int, repair: Repair) -> Commit:
    return line(rows, repair), {}


def brought(*commits: Commit | None) -> Brought | None:
    """By these commits, the oldest first; None: its receipt is lost."""
    receipts, previous = Receipts(MemoryStore(lambda: 1.0), "_blizzard/p_s"), None
    for sequence, commit in enumerate(commits):
        lines, offsets = ([commit[0]], commit[1]) if commit is not None else ([], {})
        names = {"sequence": sequence, "attempt": "a", "previous": previous, "now_ts": 1.0}
        put = receipts.put(**names, lines=lines, offsets=offsets)
        previous = put.name if commit is not None else put.name.replace("-a-", "-lost-")
    topics = {"clicks": TopicPosition(KEY[1], {0: 99})}
    checkpoint = TopicCheckpoint("p", "s", len(commits) - 1, topics=topics, receipt=previous)
    return brought_by_commits(receipts, checkpoint).get(KEY)


def judged(found: Brought | None, rows: set[int], end: int, first: int | None = 0) -> tuple[dict[int, int], int, bool]:
    gone, added, is_complete = compared(found, pa.array(sorted(rows), pa.int64()), first, end)
    return dict(gone), added, is_complete


TWO = (read(4, 0, 5), read(3, 5, 8))
"""One message of the first five was refused."""


@pytest.mark.parametrize(
    ("rows", "gone", "added"),
    [
        ({0, 1, 2, 4, 5, 6, 7}, {}, 0),
        ({0, 2, 4, 5, 6, 7}, {0: 1}, 0),
        ({0, 1, 2, 4}, {1: 3}, 0),
        ({0, 1, 2, 3, 4, 5, 6, 7}, {}, 1),
        ({0, 1, 2, 3, 4, 6, 7}, {1: 1}, 1),
        (set(), {0: 4, 1: 3}, 0),
    ],
)
def test_each_commit_has_brought_so_many_rows(rows: set[int], gone: dict[int, int], added: int) -> None:
    assert judged(brought(*TWO), rows, 8) == (gone, added, True)


def test_rows_that_were_put_back_are_rows_that_were_brought() -> None:
    found = brought(*TWO, repaired(1, Repair.RECORDS))
    assert judged(found, {*range(8)}, 8) == ({}, 0, True)
    assert judged(found, {*range(8)} - {3}, 8) == ({NOBODY_KNOWS: 1}, 0, True)


def test_what_was_before_a_replace_does_not_count() -> None:
    found = brought(*TWO, repaired(1, Repair.GIVEN), repaired(2, Repair.WHOLE), read(2, 8, 10))
    assert judged(found, {6, 7, 8, 9}, 10) == ({}, 0, True)
    assert judged(found, {7, 8}, 10) == ({3: 1, 4: 1}, 0, True)
    assert judged(found, {0, 6, 7, 8, 9}, 10) == ({}, 1, True)


def test_rows_of_offsets_that_no_commit_has_read_are_added() -> None:
    """Such as those that were gone before they were read."""
    assert judged(brought(read(2, 0, 2), read(2, 6, 8)), {0, 1, 4, 6, 7}, 8) == ({}, 1, True)


GAP_FIRST = (read(2, 4, 6), read(1, 6, 8))
"""The source began at 0, and the first four messages were gone before they were read."""


@pytest.mark.parametrize(
    ("rows", "gone", "added"),
    [({4, 5, 6}, {}, 0), ({4, 6}, {0: 1}, 0), ({4, 5, 6, 7}, {}, 1), ({0, 3, 4, 5, 6}, {}, 2), ({0, 4, 6}, {0: 1}, 1)],
)
def test_a_partition_that_began_with_a_gap_is_complete(rows: set[int], gone: dict[int, int], added: int) -> None:
    assert judged(brought(*GAP_FIRST), rows, 8) == (gone, added, True)
    assert judged(brought(None, *GAP_FIRST), rows, 8)[2] is False
    assert judged(brought((line(4), {}), *GAP_FIRST), rows, 8)[2] is False


def test_a_partition_of_which_all_was_gone_before_it_was_read_is_complete() -> None:
    """A commit has the messages of another one."""
    of_another = line(1)._replace(path="clicks/1"), {"clicks/1": (0, 1)}
    assert judged(brought(of_another), set(), 5) == ({}, 0, True)
    assert judged(brought(of_another), {3}, 5) == ({}, 1, True)
    assert judged(brought(None, of_another), {3}, 5) == ({}, 0, False)


def test_behind_a_receipt_that_is_lost_nothing_is_known() -> None:
    found = brought(*TWO[:1], None, read(2, 8, 10))
    assert judged(found, {0, 8}, 10) == ({2: 1}, 0, False)
    assert judged(found, {*range(10)}, 10) == ({}, 0, False)
    assert judged(None, {0}, 5) == ({}, 0, False)


def test_where_nobody_knows_the_beginning_rows_are_not_known_to_be_added() -> None:
    assert judged(brought(read(2, 5, 7)), {3, 5}, 7, first=None) == ({0: 1}, 0, False)


def test_receipts_of_versions_that_do_not_say_the_offsets_tell_nothing() -> None:
    assert judged(brought((line(4), {}), read(1, 5, 6)), {5}, 6) == ({}, 0, False)


def test_a_partition_without_messages_is_complete() -> None:
    assert judged(None, set(), 5, first=5) == ({}, 0, True)


def test_ranges_are_the_newest_first() -> None:
    found = brought(*TWO)
    assert found is not None
    assert found.ranges == [BroughtRange(1, 5, 8, 3), BroughtRange(0, 0, 5, 4)]
