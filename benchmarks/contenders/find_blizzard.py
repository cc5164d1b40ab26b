"""Blizzard with a long history: a table that holds so many files, and 100 new ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.contenders import Run, Work

TITLE = "Blizzard"
SESSION = True
CANNOT: dict[str, str] = {}


def prepare(work: Work, number: int) -> None:
    pass


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    """Run 0 makes the history. Run 1 is the first batch of a job that has yet to recover; then come batches of the same
    job, and the last run's files are announced by nobody, but found by a watermark sweep."""
    from benchmarks.contenders.session import session_of
    from benchmarks.contenders.steady import Steady
    from benchmarks.known import Known, lengthen

    spark, known = session_of(work), Known(**work.options)
    steady = Steady(work, spark)

    def run(number: int) -> dict[str, Any]:
        nonlocal steady
        if number == 0:
            steady.announce(known.first())
            answer = steady.drain()
            lengthen(known, work.table(0))
            steady = Steady(work, spark)
            return answer
        with known.dropped(number) as paths:
            if number == work.runs - 1:
                return _by_sweep(steady)
            steady.announce(paths)
            return steady.drain()

    yield run


def _by_sweep(steady: Any) -> dict[str, Any]:
    from time import monotonic

    began = monotonic()
    steady.job.sweep(late=False, announce=True)
    swept_secs = monotonic() - began
    answer = steady.drain()
    return {**answer, "commit_secs": answer["commit_secs"] + swept_secs, "swept_secs": swept_secs}
