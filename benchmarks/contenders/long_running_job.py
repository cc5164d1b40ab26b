"""A long-running Blizzard job: one process, one table, batch after batch of announced files."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.contenders import Work
from benchmarks.contenders.blizzard import config_of, manifest_of
from blizzard.config.load import parse_config
from blizzard.manifest.segments import Entry
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from spark_job.wiring import SourceJob, source_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LongRunningJob:
    """The job starts as in a new process: it has to recover its state from the table."""

    def __init__(self, work: Work, spark: "Callable[[], SparkSession]") -> None:
        config = parse_config(config_of(work, 0), {}, folder="/")
        ((pipeline, source),) = config.sources()
        self._events: list[dict[str, Any]] = []
        self._files = LocalStore(work.source_uri)
        self._manifest = manifest_of(work.table(0))
        self.job: SourceJob = source_job(pipeline, source, spark=spark, s3=S3Settings(), log=self._note)

    def _note(self, event: str, /, **fields: object) -> None:
        self._events.append({"event": event, **fields})

    def announce(self, paths: Sequence[str]) -> None:
        """Appends entries to the manifest, as the collector does for the events of these files."""
        infos = [info for info in map(self._files.head, paths) if info is not None]
        entries = [Entry(info.key, info.size, info.etag, time.time()) for info in infos]
        self._manifest.append(entries, writer_id="collector", now_ts=time.time())

    def segments(self) -> int:
        return len(self._manifest.refs())

    def drain(self) -> dict[str, Any]:
        """Ingests all announced files; returns the seconds it took and what the job logged about its commits."""
        self._events.clear()
        began = time.monotonic()
        self.job.ingest.drain()
        secs = time.monotonic() - began
        committed = [event for event in self._events if event["event"] == "batch_committed"]
        return {
            "commit_secs": secs,
            "commits": len(committed),
            "parts": [event["secs"] for event in committed],
            "delta_checkpoint": any(event["delta_checkpoint"] for event in committed),
        }
