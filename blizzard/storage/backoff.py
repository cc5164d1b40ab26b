"""Exponential backoff with jitter."""


def backoff_secs(failures: int, *, first_secs: float, max_secs: float, jitter: float) -> float:
    """Seconds to wait after `failures` (1 or more) in a row. The ceiling doubles from `first_secs` up to `max_secs`.
    The wait is between half of the ceiling (`jitter` 0) and all of it (`jitter` 1)."""
    ceiling_secs = min(max_secs, first_secs * 2.0 ** min(failures - 1, 63))
    return ceiling_secs * (1 + jitter) / 2
