"""A long-running Blizzard job: one process, one table, batch after batch of announced files."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.contenders import Work
from benchmarks.contenders.blizzard import config_of, manifest_of, s3_settings
from blizzard.config.load import parse_config
from blizzard.manifest.segments import Entry
from blizzard.storage.base import ObjectInfo
from blizzard.storage.open import open_store
from spark_job.engines.spark.engine import SparkEngine
from spark_job.wiring import SourceJob, source_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LongRunningJob:
    """The job starts as in a new process: it has to recover its state from the table."""

    def __init__(self, work: Work, spark: "Callable[[], SparkSession]") -> None:
        config = parse_config(config_of(work, 0), {}, folder="/")
        ((pipeline, source),) = config.sources()
        self.events: list[dict[str, Any]] = []
        self.files = open_store(work.source_uri, s3_settings())
        self._manifest = manifest_of(work.table(0))
        self.job: SourceJob = source_job(pipeline, source, engine=SparkEngine(spark), s3=s3_settings(), log=self._note)

    def _note(self, event: str, /, **fields: object) -> None:
        self.events.append({"event": event, **fields})

    def announce(self, paths: Sequence[str]) -> None:
        """Appends entries to the manifest, as the collector does for the events of these files."""
        self.announce_objects([info for info in map(self.files.head, paths) if info is not None])

    def announce_objects(self, infos: Sequence[ObjectInfo]) -> None:
        entries = [Entry(info.key, info.size, info.etag, time.time()) for info in infos]
        self._manifest.append(entries, writer_id="collector", now_ts=time.time())

    def segments(self) -> int:
        return len(self._manifest.refs())

    def drain(self) -> dict[str, Any]:
        """Ingests all announced files; returns the seconds it took and what the job logged about its commits."""
        self.events.clear()
        began = time.monotonic()
        self.job.ingest.drain()
        secs = time.monotonic() - began
        committed = [event for event in self.events if event["event"] == "batch_committed"]
        return {
            "commit_secs": secs,
            "commits": len(committed),
            "parts": [event["secs"] for event in committed],
            "delta_checkpoint": any(event["delta_checkpoint"] for event in committed),
        }
