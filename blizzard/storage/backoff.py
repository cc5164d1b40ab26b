"""How long to wait before whatever may succeed on the next try: exponentially longer, with jitter."""


def backoff_secs(failures: int, *, first_secs: float, most_secs: float, jitter: float) -> float:
    """Seconds after so many failures in a row (1 or more). The ceiling doubles from `first_secs` up to `most_secs`; the
    wait is between half of it and all of it, `jitter` (0 to 1) says where."""
    ceiling_secs = min(most_secs, first_secs * 2.0 ** min(failures - 1, 63))
    return ceiling_secs * (1 + jitter) / 2
