"""Blizzard with long histories: several tables of different sizes in one process, 100 new files per batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.contenders import Run, Work

TITLE = "Blizzard"
UNSUPPORTED: dict[str, str] = {}


def prepare(work: Work, number: int) -> None:
    pass


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    """Each of `turns` is done for all histories, in rotating order, before the next turn. Kinds of turns:

    `history`: ingest the first batch and generate the rest of the history. `first`: the first batch of a new job, which
    has to recover. `steady`: a further batch of that job. `swept`: files without events, found by a watermark sweep.

    All kinds are run on a separate table first, to warm up the JVM.
    """
    from benchmarks.contenders.session import session_of
    from benchmarks.synthetic_history import SyntheticHistory

    spark, turns = session_of(work), work.options["turns"]
    histories = [_History(work, spark, SyntheticHistory(**fields)) for fields in work.options["histories"]]
    pattern = histories[0].source
    warm_up = _History(work, spark, replace(pattern, folder=f"{work.out}/landing/warm-up", count=2 * pattern.batch))
    warm_up.source.make()
    for turn, kind in enumerate(("history", "first", "steady", "swept")):
        warm_up.take(kind, turn)

    def run(number: int) -> dict[str, Any]:
        turn, which = divmod(number, len(histories))
        history = histories[(which + turn) % len(histories)]
        return {**history.take(turns[turn], turn), "known": history.source.count, "kind": turns[turn]}

    yield run


class _History:
    """A synthetic history, its table, and the job that ingests it."""

    def __init__(self, work: Work, spark: Any, source: Any) -> None:
        out = f"{work.out}/{Path(source.folder).name}"
        self.source = source
        self._work = replace(work, data=replace(work.data, folder=source.folder), out=out)
        self._spark = spark
        self._job: Any = None

    def take(self, kind: str, turn: int) -> dict[str, Any]:
        """Turn 0 has to be `history`."""
        if kind == "history":
            return self._make()
        if kind == "first":
            self._reset()
        with self.source.dropped(turn) as paths:
            if kind == "swept":
                return self._by_sweep()
            self._job.announce(paths)
            answer: dict[str, Any] = self._job.drain()
            return answer

    def _make(self) -> dict[str, Any]:
        from benchmarks.synthetic_history import append_commits

        self._reset()
        self._job.announce(self.source.first())
        answer: dict[str, Any] = self._job.drain()
        append_commits(self.source, self._work.table(0))
        return answer

    def _reset(self) -> None:
        """Starts a new job in the warm JVM. Delta's cache is cleared too, so that it reads the log again."""
        from benchmarks.contenders.long_running_job import LongRunningJob

        self._spark()._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self._job = LongRunningJob(self._work, self._spark)

    def _by_sweep(self) -> dict[str, Any]:
        began = monotonic()
        self._job.job.sweep(late=False, record_if_empty=True)
        swept_secs = monotonic() - began
        answer = self._job.drain()
        return {**answer, "commit_secs": answer["commit_secs"] + swept_secs, "swept_secs": swept_secs}
