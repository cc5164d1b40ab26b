"""Which files to look into: the oldest, the newest, the largest, the smallest, and some between."""

from collections.abc import Sequence

from blizzard.storage.base import ObjectInfo


def chosen(files: Sequence[ObjectInfo], limit: int) -> list[ObjectInfo]:
    """At most `limit` of the files, in the order of their names. Empty files tell nothing."""
    full = [info for info in files if info.size]
    by_time = sorted(full, key=lambda info: (info.modified_ts, info.key))
    by_size = sorted(full, key=lambda info: (info.size, info.key))
    by_name = sorted(full, key=lambda info: info.key)
    ends = [part for order in (by_time, by_size, by_name) for part in (order[:1], order[-1:])]
    found = {info.key: info for part in (*ends, _evenly(by_time, limit)) for info in part}
    return sorted(list(found.values())[:limit], key=lambda info: info.key)


def _evenly(files: Sequence[ObjectInfo], count: int) -> Sequence[ObjectInfo]:
    if len(files) <= count:
        return files
    return [files[at * (len(files) - 1) // max(1, count - 1)] for at in range(count)]
