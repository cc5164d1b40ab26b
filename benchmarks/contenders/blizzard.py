"""Blizzard: entries in the pending manifest, as the collector writes them, and a job that drains it."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.contenders import Run, Work
from benchmarks.contenders.timestamps import Timestamps, cpu_secs_so_far
from benchmarks.format_data import EXTENSIONS
from blizzard.config.load import parse_config
from blizzard.environment import variables
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings

if TYPE_CHECKING:
    from spark_job.tasks.engine import Engine

TITLE = "Blizzard"
UNSUPPORTED: dict[str, str] = {}
SEGMENT_ENTRIES = 3_000
"""The most entries that one invocation of the collector appends."""


def s3_settings() -> S3Settings:
    return S3Settings.from_environment(variables())


def config_of(work: Work, number: int) -> str:
    """The text of `pipelines.yaml`, as JSON."""
    source = {
        "uri": work.source_uri,
        "format": work.data.format,
        "pattern": f"**/*{EXTENSIONS.get(work.data.format, '')}",
        "schema": work.data.schema,
        "partition_columns": {"date": "date"},
        "settle_delay_secs": 0,
        **work.settings,
    }
    pipeline = {
        "table_uri": work.table(number),
        "partition_by": ["date"],
        "sources": {"landing": source},
        **work.options.get("pipeline", {}),
    }
    return json.dumps({"pipelines": {"events": pipeline}})


def manifest_of(table: str) -> Manifest:
    return Manifest(open_store(table, s3_settings(), may_be_missing=True), "_blizzard/events_landing", "events:landing")


def entries_of(work: Work) -> list[Entry]:
    """Manifest entries, as the collector makes them from the events of these files."""
    store, now_ts = open_store(work.source_uri, s3_settings()), time.time()
    infos = {info.key: info for info in store.list("")}
    return [Entry(path, infos[path].size, infos[path].etag, now_ts) for path in work.data.paths]


def prepare(work: Work, number: int) -> None:
    manifest = manifest_of(work.table(number))
    entries = entries_of(work)
    for start in range(0, len(entries), SEGMENT_ENTRIES):
        manifest.append(entries[start : start + SEGMENT_ENTRIES], writer_id="collector", now_ts=time.time())


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    from benchmarks.contenders.session import session_of
    from spark_job.engines.spark.engine import SparkEngine

    spark, drained = session_of(work), draining(work)

    def run(number: int) -> dict[str, Any]:
        timestamps = Timestamps()
        answer = drained(number, SparkEngine(timestamps.noting_session(spark)))
        return {**answer, "moments": timestamps.at}

    yield run


def draining(work: Work) -> "Callable[[int, Engine], dict[str, Any]]":
    """A function that runs the job of a number, and returns what it did, with its log."""
    from spark_job.wiring import source_job

    def drained(number: int, engine: "Engine") -> dict[str, Any]:
        events: list[dict[str, Any]] = []

        def log(event: str, /, **fields: object) -> None:
            events.append({"at": time.monotonic(), "event": event, **cpu_secs_so_far(work), **fields})

        config = parse_config(config_of(work, number), {}, folder="/")
        ((pipeline, source),) = config.sources()
        log("run_began")
        totals = source_job(pipeline, source, engine=engine, s3=s3_settings(), log=log).ingest.drain()
        log("run_ended")
        return {"totals": asdict(totals), "events": json.loads(json.dumps(events, default=str))}

    return drained


def commits(work: Work, answer: dict[str, Any]) -> int:
    """The number of commits. Raises WrongResult if it is more than `checkpoint.interval_files` requires."""
    from benchmarks.verify import WrongResult

    full = int(work.settings.get("checkpoint", {}).get("interval_files", 1_000))
    wanted = -(-work.data.files // full)
    committed: int = answer["totals"]["commits"]
    if committed > wanted:
        raise WrongResult(
            f"Blizzard on {work.data.name}: expected {wanted} commits of {full} files each, found {committed}"
        )
    return committed
