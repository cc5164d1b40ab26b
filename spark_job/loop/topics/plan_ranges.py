"""Which offsets the next batch takes: a share of each partition that has some, within the limits of a batch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blizzard.state.topic_checkpoint import Partition
from spark_job.ports.offset_range import OffsetRange

FIRST_GUESS_BYTES = 1024
"""Of a message, before any was read."""
MIN_TASK_MESSAGES = 20_000
"""A smaller task would only add a data file."""
TASKS_PER_CORE = 1


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Of one batch. `bytes`: of keys, headers and payloads, about."""

    messages: int
    bytes: int

    def messages_of(self, bytes_each: float) -> int:
        return max(1, min(self.messages, int(self.bytes / max(1.0, bytes_each))))


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
    """What each task reads, as `ReadTasks` takes it. A large range is divided; no task has two of one partition."""
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
    return [json.dumps([_values(one) for one in task]) for task in (*tasks, *filled)]


def _pieces(one: OffsetRange, share: int) -> list[OffsetRange]:
    starts = range(one.start, one.end, share)
    return [OffsetRange(one.topic, one.partition, one.topic_id, at, min(at + share, one.end)) for at in starts]


def _values(one: OffsetRange) -> tuple[str, int, str, int, int]:
    return one.topic, one.partition, one.topic_id, one.start, one.end
