"""Which offsets a batch takes, and how they are spread over tasks."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from blizzard.audit.topic_plan import commits_of
from blizzard.kafka.batch_limits import BatchLimits
from spark_job.loop.topics.plan_ranges import shares, tasks_of
from spark_job.ports.offset_range import OffsetRange

PARTITIONS = st.tuples(st.sampled_from("tu"), st.integers(0, 5))
LAGS = st.dictionaries(PARTITIONS, st.integers(0, 200_000), max_size=8)


@given(LAGS, st.integers(1, 300_000))
def test_a_batch_takes_as_much_as_it_may_and_no_partition_waits_for_another(
    lags: dict[tuple[str, int], int], most: int
) -> None:
    taken = shares(lags, most)
    assert all(0 < count <= lags[partition] for partition, count in taken.items())
    total = sum(lags.values())
    partitions = sum(lag > 0 for lag in lags.values())
    assert sum(taken.values()) == min(most, total) or min(most, total) - sum(taken.values()) < partitions
    least = min((count for partition, count in taken.items() if count < lags[partition]), default=0)
    assert all(count <= least + 1 or count <= lags[p] for p, count in taken.items())


def test_small_partitions_are_taken_whole_and_large_ones_share_the_rest() -> None:
    assert shares({("t", 0): 5, ("t", 1): 1000, ("t", 2): 1000, ("t", 3): 0}, 105) == {
        ("t", 0): 5,
        ("t", 1): 50,
        ("t", 2): 50,
    }
    assert sum(shares({("t", number): 10 for number in range(9)}, 3).values()) == 3


def test_a_batch_is_limited_by_messages_and_by_their_size() -> None:
    limits = BatchLimits(1000, 1 << 20)
    assert [limits.messages_of(each) for each in (0, 100, 1 << 14, 1 << 30)] == [1000, 1000, 64, 1]


def test_the_first_batch_of_a_source_tells_how_large_messages_are() -> None:
    limits = BatchLimits(1000, 64 << 20)
    assert (limits.first, BatchLimits(10, 64 << 20).first, BatchLimits(1000, 1).first) == (64, 10, 1)
    assert [commits_of(lag, None, limits) for lag in (0, 1, 64, 65, 1064, 1065)] == [0, 1, 1, 2, 2, 3]
    assert [commits_of(lag, 1 << 20, limits) for lag in (0, 64, 65)] == [0, 1, 2]


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 300_000)), min_size=1, max_size=8), st.integers(1, 16))
def test_tasks_have_every_offset_once_and_no_two_ranges_of_a_partition(
    wanted: list[tuple[int, int]], cores: int
) -> None:
    ranges = [OffsetRange("t", number, "id", start, start + count) for number, (start, count) in enumerate(wanted)]
    tasks = [[OffsetRange.from_values(values) for values in json.loads(task)] for task in tasks_of(ranges, cores)]
    for one in ranges:
        pieces = sorted(
            (piece.start, piece.end) for task in tasks for piece in task if piece.partition == one.partition
        )
        assert pieces[0][0] == one.start
        assert pieces[-1][1] == one.end
        assert all(end == start for (_, end), (start, _) in pairwise(pieces))
    for task in tasks:
        assert len({piece.partition for piece in task}) == len(task)


def test_few_messages_are_one_task_and_many_use_all_cores() -> None:
    assert len(tasks_of([OffsetRange("t", number, "id", 0, 10) for number in range(100)], 8)) == 1
    assert len(tasks_of([OffsetRange("t", 0, "id", 0, 1_000_000)], 8)) == 8
