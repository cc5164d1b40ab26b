"""Blizzard on a table whose receipts and ledger are gone; then in races with another job, each of which it loses."""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.contenders import Run, Work
from benchmarks.contenders.long_running_job import LongRunningJob
from benchmarks.ledger import random_names
from benchmarks.ledger.table import ManyFiles, append_commits, etag_of
from benchmarks.records import event_lines
from benchmarks.resource_monitor import ResourceMonitor
from blizzard.storage.base import ObjectInfo

TITLE = "Blizzard"
UNSUPPORTED: dict[str, str] = {}
NEW = 100


def prepare(work: Work, number: int) -> None:
    pass


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    """The first run makes the table and rebuilds the ledger; each later one loses a race."""
    from benchmarks.contenders.session import session_of

    source = _Source(work, session_of(work))

    def run(number: int) -> dict[str, Any]:
        return source.race(number) if number else source.rebuild()

    yield run


class _Job(LongRunningJob):
    """A job whose next event of a name lets another job go first, and which notes the time of each event."""

    def __init__(self, work: Work, spark: Any) -> None:
        super().__init__(work, spark)
        self._spark = spark
        self.first: tuple[str, Callable[[], object]] | None = None

    def _note(self, event: str, /, **fields: object) -> None:
        jobs = self._spark().sparkContext._jsc.sc().dagScheduler().numTotalJobs()
        super()._note(event, at=time.monotonic(), spark_jobs=jobs, **fields)
        if self.first is not None and self.first[0] == event:
            before, self.first = self.first[1], None
            before()

    def event(self, name: str) -> dict[str, Any]:
        (found,) = (event for event in self.events if event["event"] == name)
        return found


class _Source:
    def __init__(self, work: Work, spark: Any) -> None:
        self._work = work
        self._spark = spark
        self._files = 0
        self._many = ManyFiles(**work.options)
        self._job = _Job(work, spark)

    def rebuild(self) -> dict[str, Any]:
        """The time of the first batch of a new job in a warm JVM, then of a further one. Half of the first one's events
        are of files that only the table knows."""
        self._job.announce(self._dropped())
        self._job.drain()
        append_commits(Path(self._work.table(0)), self._many)
        self._spark()._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self._job = _Job(self._work, self._spark)
        self._job.announce(self._dropped())
        self._job.announce_objects(self._known())
        with ResourceMonitor(os.getpid()) as monitor:
            answer = self._job.drain()
        usage = monitor.usage()
        told = [event for event in self._job.events if event["event"] == "ledger_rebuilding"]
        known = sum(event["known"] for event in self._job.events if event["event"] == "suspects_judged")
        self._job.announce(self._dropped())
        return {
            **answer,
            "progress_events": len(told),
            "rebuilt_files": told[-1]["files"] if told else 0,
            "peak_bytes": usage.peak_bytes,
            "peak_java_bytes": usage.peak_java_bytes,
            "peak_python_bytes": usage.peak_python_bytes,
            "known": known,
            "again": self._job.drain(),
        }

    def race(self, number: int) -> dict[str, Any]:
        """The job plans a batch. Before it commits, another job commits the same files. Then it plans the next one."""
        other = LongRunningJob(self._work, self._spark)
        self._job.events.clear()
        self._job.announce(self._dropped())
        self._job.first = ("batch_planned", other.drain)
        lost = self._job.job.ingest.step(draining=True)
        race = self._job.event("race_lost")
        self._job.announce(self._dropped())
        self._job.events.clear()
        began = time.monotonic()
        step = self._job.job.ingest.step(draining=True)
        planned, committed = self._job.event("batch_planned"), self._job.event("batch_committed")
        return {
            "steps": [str(lost), str(step)],
            "planned_secs": planned["at"] - began,
            "spark_jobs": planned["spark_jobs"] - race["spark_jobs"],
            "parts": [committed["secs"]],
        }

    def _known(self) -> list[ObjectInfo]:
        """Events of files of the table. They need no objects, since nobody reads these files again."""
        paths = next(self._many.commits())[:NEW]
        return [ObjectInfo(path, 1_000, etag_of(path), time.time()) for path in paths]

    def _dropped(self) -> list[str]:
        """New files of random names."""
        found = random_names.paths(NEW, f"dropped {self._files}")
        for number, path in enumerate(found, self._files):
            lines = event_lines(random.Random(number), number * 10, 10)
            file = Path(self._work.source_uri, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"\n".join(lines) + b"\n")
        self._files += len(found)
        return found
