"""Settings that follow from the sizes of files and from the times of their uploads."""

from collections.abc import Sequence

from blizzard.paths.partition import partition_of
from blizzard.storage.base import ObjectInfo

DEFAULT_DELAY_SECS = 60.0
MAX_DELAY_SECS = 3600.0
SMALL_FILE_BYTES = 64 << 10
LARGE_FILE_BYTES = 256 << 20
PARTITION_BYTES = 10 << 30
"""Below this size, partitions of a table cost more than they save."""
_ORDERED_SHARE = 0.9


def settle_delay_secs(files: Sequence[ObjectInfo]) -> float | None:
    """How much later than a file with a greater name a file appears, at most, twice; None: the default is enough, or
    names are in no order, so that nothing follows from them."""
    lateness, pairs, ordered = 0.0, 0, 0
    newest: dict[str, float] = {}
    for info in sorted(files, key=lambda info: info.key, reverse=True):
        folder = partition_of(info.key)
        earliest_after = newest.get(folder)
        if earliest_after is not None:
            pairs += 1
            ordered += info.modified_ts <= earliest_after
            lateness = max(lateness, info.modified_ts - earliest_after)
        newest[folder] = info.modified_ts if earliest_after is None else min(earliest_after, info.modified_ts)
    if not pairs or ordered < pairs * _ORDERED_SHARE or 2 * lateness <= DEFAULT_DELAY_SECS:
        return None
    return min(MAX_DELAY_SECS, float(round(2 * lateness)))


def intervals(files: Sequence[ObjectInfo]) -> tuple[int | None, int | None]:
    """`interval_files` and `interval_bytes`; None: the default."""
    mean = sum(info.size for info in files) / max(1, len(files))
    if mean < SMALL_FILE_BYTES:
        return (10_000, None) if len(files) > 1000 else (None, None)
    return (None, 4 << 30) if mean > LARGE_FILE_BYTES else (None, None)
