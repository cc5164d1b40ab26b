"""Blizzard with long histories: tables that hold so many files each, and 100 new ones; all tables in one process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.contenders import Run, Work

TITLE = "Blizzard"
SESSION = True
CANNOT: dict[str, str] = {}


def prepare(work: Work, number: int) -> None:
    pass


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    """Each of `turns` comes for one history after the other before the next turn does; who is first, changes. What a
    turn may be: `history` makes it; `first` is the first batch of a job that has yet to recover, and knows nothing of
    the table; `steady` a batch of the same job; `swept` one that nobody announces, but a watermark sweep finds.

    All of them happen to a table of its own before anything is measured, so that all find the JVM warm.
    """
    from benchmarks.contenders.session import session_of
    from benchmarks.known import Known

    spark, turns = session_of(work), work.options["turns"]
    histories = [_History(work, spark, Known(**known)) for known in work.options["histories"]]
    pattern = histories[0].known
    warm_up = _History(work, spark, replace(pattern, folder=f"{work.out}/landing/warm-up", count=2 * pattern.batch))
    warm_up.known.make()
    for turn, kind in enumerate(("history", "first", "steady", "swept")):
        warm_up.take(kind, turn)

    def run(number: int) -> dict[str, Any]:
        turn, which = divmod(number, len(histories))
        history = histories[(which + turn) % len(histories)]
        return {**history.take(turns[turn], turn), "known": history.known.count, "kind": turns[turn]}

    yield run


class _History:
    """Known files, the table that holds them, and the job at work."""

    def __init__(self, work: Work, spark: Any, known: Any) -> None:
        out = f"{work.out}/{Path(known.folder).name}"
        self.known = known
        self._work = replace(work, data=replace(work.data, folder=known.folder), out=out)
        self._spark = spark
        self._steady: Any = None

    def take(self, kind: str, turn: int) -> dict[str, Any]:
        """`turn` 0 makes the history."""
        if kind == "history":
            return self._make()
        if kind == "first":
            self._forget()
        with self.known.dropped(turn) as paths:
            if kind == "swept":
                return self._by_sweep()
            self._steady.announce(paths)
            answer: dict[str, Any] = self._steady.drain()
            return answer

    def _make(self) -> dict[str, Any]:
        from benchmarks.known import lengthen

        self._forget()
        self._steady.announce(self.known.first())
        answer: dict[str, Any] = self._steady.drain()
        lengthen(self.known, self._work.table(0))
        return answer

    def _forget(self) -> None:
        """As a new process begins, but for its warm JVM: Delta has to read the log anew, too."""
        from benchmarks.contenders.steady import Steady

        self._spark()._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self._steady = Steady(self._work, self._spark)

    def _by_sweep(self) -> dict[str, Any]:
        began = monotonic()
        self._steady.job.sweep(late=False, record_if_empty=True)
        swept_secs = monotonic() - began
        answer = self._steady.drain()
        return {**answer, "commit_secs": answer["commit_secs"] + swept_secs, "swept_secs": swept_secs}
