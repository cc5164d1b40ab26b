"""Which offsets the next batch takes: a share of each partition that has some, within the limits of a batch."""

import json
from collections.abc import Mapping, Sequence

from blizzard.state.topic_checkpoint import Partition
from spark_job.ports.offset_range import OffsetRange

MIN_TASK_MESSAGES = 20_000
"""A smaller task would only add a data file."""
TASKS_PER_CORE = 1


def shares(lags: Mapping[Partition, int], most: int) -> dict[Partition, int]:
    """How many offsets to take of each: all of the small ones, and of the others the same number each."""
    taken, left = dict[Partition, int](), most
    waiting = sorted((lag, partition) for partition, lag in lags.items() if lag > 0)
    for at, (lag, partition) in enumerate(waiting):
        take = min(lag, left // (len(waiting) - at))
        left -= take
        if take:
            taken[partition] = take
    if not taken and waiting:  # fewer messages than partitions: the ones that have waited behind most others
        taken = {partition: 1 for _, partition in waiting[-most:]}
    return taken


def tasks_of(ranges: Sequence[OffsetRange], cores: int) -> list[str]:
    """What each task reads, as `ReadTasks` takes it. A large range is divided; no task has two of one partition, unless
    some of its messages are wanted."""
    if any(one.wanted is not None for one in ranges):
        return _tasks_of_wanted(ranges, cores)
    total = sum(one.length for one in ranges)
    count = max(1, min(TASKS_PER_CORE * cores, total // MIN_TASK_MESSAGES))
    share = -(-total // count)
    tasks = [[piece] for one in ranges for piece in _pieces(one, share) if piece.length >= share]
    small = [piece for one in ranges for piece in _pieces(one, share) if piece.length < share]
    filled: list[list[OffsetRange]] = []
    room = 0
    for piece in sorted(small, key=lambda piece: -piece.length):
        if piece.length > room:
            filled.append([])
            room = share
        filled[-1].append(piece)
        room -= piece.length
    return [json.dumps([one.as_values() for one in task]) for task in (*tasks, *filled)]


def _tasks_of_wanted(ranges: Sequence[OffsetRange], cores: int) -> list[str]:
    """All ranges of a partition are in one task."""
    by_path: dict[str, list[OffsetRange]] = {}
    for one in ranges:
        by_path.setdefault(one.path, []).append(one)
    total = sum(len(one.wanted or ()) for one in ranges)
    count = max(1, min(cores, len(by_path), total // MIN_TASK_MESSAGES))
    partitions = sorted(by_path.values(), key=lambda some: -sum(len(one.wanted or ()) for one in some))
    tasks = [[one for some in partitions[at::count] for one in some] for at in range(count)]
    return [json.dumps([one.as_values() for one in task]) for task in tasks]


def _pieces(one: OffsetRange, share: int) -> list[OffsetRange]:
    starts = range(one.start, one.end, share)
    return [OffsetRange(one.topic, one.partition, one.topic_id, at, min(at + share, one.end)) for at in starts]
