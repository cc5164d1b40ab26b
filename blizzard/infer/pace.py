"""Settings that follow from the sizes of files and from the times of their uploads."""

from collections.abc import Sequence
from dataclasses import dataclass

from blizzard.paths.partition import partition_of
from blizzard.storage.base import ObjectInfo

DEFAULT_DELAY_SECS = 60.0
MAX_DELAY_SECS = 3600.0
SMALL_FILE_BYTES = 64 << 10
LARGE_FILE_BYTES = 256 << 20
SMALL_FILES = 10_000
"""Of a batch of small ones."""
LARGE_BATCH_BYTES = 4 << 30
PARTITION_BYTES = 10 << 30
"""Below this size, partitions of a table cost more than they save."""
_DEFAULT_FILES = 1_000
_ORDERED_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class SettleDelay:
    """`secs` is None where the default is enough, or nothing follows from the files. `why`: what the files show."""

    secs: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Intervals:
    """`interval_files` and `interval_bytes`; None: the default. `why`: what the files show."""

    files: int | None
    bytes: int | None
    why: str


def settle_delay(files: Sequence[ObjectInfo]) -> SettleDelay:
    """Twice as long as a file appears later than one with a greater name in its folder, at most."""
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
    if not pairs:
        return SettleDelay(None, "no folder has two files whose times could be compared")
    if ordered < pairs * _ORDERED_SHARE:
        return SettleDelay(None, f"only {ordered:,} of {pairs:,} files came before those that sort behind them")
    late = "no file came late"
    if lateness:
        late = f"a file came up to {lateness:,.0f} seconds after one that sorts behind it"
    if 2 * lateness <= DEFAULT_DELAY_SECS:
        return SettleDelay(None, late)
    return SettleDelay(min(MAX_DELAY_SECS, float(round(2 * lateness))), late)


def intervals(files: Sequence[ObjectInfo]) -> Intervals:
    mean = sum(info.size for info in files) / max(1, len(files))
    why = f"a file has {mean:,.0f} bytes on average"
    if mean < SMALL_FILE_BYTES and len(files) > _DEFAULT_FILES:
        return Intervals(SMALL_FILES, None, why)
    return Intervals(None, LARGE_BATCH_BYTES if mean > LARGE_FILE_BYTES else None, why)
