"""A table and the folders that feed it, on this machine's disk, ingested by the real job."""

import gzip
import json
import queue
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from blizzard.config.load import parse_config
from blizzard.config.model import Config
from blizzard.config.spark_settings import settings
from blizzard.manifest.segments import Entry, Manifest
from blizzard.state.checkpoint import Checkpoint, decode
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from infra.local.demo.parts import Part
from infra.local.demo.verdict import Verdict, judge, read_source
from spark_job.loop.ingest import Totals
from spark_job.wiring import SourceJob, source_job

JARS = Path(__file__).resolve().parents[2] / "jars"
SCHEMA = "id STRING NOT NULL, n BIGINT"
SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that warms up in half the time."""
SMALL_QUERIES = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""For queries over some rows: compiling a plan, or planning it again between its stages, takes longer than running it.
Jobs in processes of their own have Spark's defaults."""
PATIENCE_SECS = 300.0
"""For a job in a process of its own, on a machine that does much else; what comes sooner is not waited for."""


@dataclass
class Lake:
    """`settings` are the source's, as in pipelines.yaml; they may be changed between two runs, as people do."""

    folder: Path
    spark: Callable[[], SparkSession]
    settings: dict[str, Any] = field(default_factory=dict)
    table_settings: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    meanwhile: dict[str, Callable[[], object]] = field(default_factory=dict)
    """What happens, once, when a job says this: another job, a crash, somebody's hand in the files."""

    @property
    def table(self) -> Path:
        return self.folder / "table"

    def landing(self, source: str = "landing") -> Path:
        return self.folder / source

    # -- what lands

    def put(self, path: str, *records: Mapping[str, Any] | str | bytes, source: str = "landing") -> Path:
        """A file of these records, a line each (a mapping as JSON), gzipped if its name says so."""
        body = b"".join(_line(record) + b"\n" for record in records)
        return self.put_bytes(path, gzip.compress(body) if path.endswith(".gz") else body, source=source)

    def put_bytes(self, path: str, body: bytes, *, source: str = "landing") -> Path:
        """Complete from the moment it is there, as an object is."""
        file = self.landing(source) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.folder / "unfinished"
        unfinished.write_bytes(body)
        return unfinished.rename(file)

    def announce(self, *paths: str, source: str = "landing") -> None:
        """What the collector does with the events of these files."""
        infos = [LocalStore(self.landing(source)).head(path) for path in paths]
        entries = [Entry(info.key, info.size, info.etag, time.time()) for info in infos if info is not None]
        manifest = Manifest(
            LocalStore(self.table, may_be_missing=True), f"_blizzard/events_{source}", f"events:{source}"
        )
        manifest.append(entries, writer_id="collector", now_ts=time.time())

    # -- the job

    def document(self, sources: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
        """A configuration of one pipeline; by default of one source, `landing`, with this lake's settings."""
        wanted = {"landing": self.settings} if sources is None else sources
        for name in wanted:
            self.landing(name).mkdir(parents=True, exist_ok=True)
        defaults = {"schema": SCHEMA, "settle_delay_secs": 0}
        described = {
            name: {"uri": str(self.landing(name)), **defaults, **settings} for name, settings in wanted.items()
        }
        pipeline = {"table_uri": str(self.table), "sources": described, **self.table_settings}
        return {"pipelines": {"events": pipeline}}

    def write_config(self, sources: Mapping[str, Mapping[str, Any]] | None = None) -> Path:
        file = self.folder / "pipelines.yaml"
        file.write_text(json.dumps(self.document(sources)))
        return file

    def config(self, sources: Mapping[str, Mapping[str, Any]] | None = None) -> Config:
        return parse_config(json.dumps(self.document(sources)), {}, folder=str(self.folder))

    def jobs(self, sources: Mapping[str, Mapping[str, Any]] | None = None) -> list[SourceJob]:
        """As a new process makes them: they know nothing of any run before."""
        found = self.config(sources).sources()
        return [source_job(p, s, spark=self.spark, s3=S3Settings(), log=self._note) for p, s in found]

    def job(self) -> SourceJob:
        return self.jobs()[0]

    def run(self, *, late: bool = False) -> Totals:
        """What `blizzard run --once` does."""
        return run(self.job(), late=late)

    @contextmanager
    def process(self, *words: str) -> Iterator[Part]:
        """The job in a process of its own, as people start it; gone at the end of the block."""
        conf = f"spark.driver.extraJavaOptions=-Duser.timezone=UTC {SHORT_LIFE}"
        options = ["--config", str(self.folder / "pipelines.yaml"), "--jars", str(JARS), "--sweep", "--once"]
        more = ["--spark-conf", conf, "--spark-conf", "spark.sql.shuffle.partitions=2", *words]
        with Part(["spark_job.main", *options, *more], {}, self.folder / "job.log") as part:
            yield part

    def _note(self, event: str, /, **fields: object) -> None:
        self.events.append({"event": event, **fields})
        self.meanwhile.pop(event, lambda: None)()

    def said(self, event: str) -> list[dict[str, Any]]:
        """The log's lines of this event."""
        return [line for line in self.events if line["event"] == event]

    # -- what is there

    def rows(self) -> list[dict[str, Any]]:
        """Of the table, read by another engine, in the order of files and records."""
        return sorted(
            self.rows_unsorted(),
            key=lambda row: (row["_source"]["source"], row["_source"]["file"], row["_source"]["row"]),
        )

    def rows_unsorted(self) -> list[dict[str, Any]]:
        """Rows of others too, which have no `_source`."""
        rows: list[dict[str, Any]] = DeltaTable(str(self.table)).to_pyarrow_table().to_pylist()
        return rows

    def ids(self) -> list[str]:
        return [row["id"] for row in self.rows()]

    def files(self) -> dict[str, int]:
        """The number of rows by file."""
        found: dict[str, int] = {}
        for row in self.rows():
            found[row["_source"]["file"]] = found.get(row["_source"]["file"], 0) + 1
        return found

    def letters(self, source: str = "landing") -> list[dict[str, Any]]:
        store = LocalStore(self.table, may_be_missing=True)
        return list(DeadLetters(store, f"_blizzard/events_{source}", f"events:{source}").letters())

    def verdict(self) -> Verdict:
        """On everything that lies in `landing` now, all of it gzipped NDJSON."""
        objects = ((f.relative_to(self.landing()).as_posix(), f.read_bytes()) for f in self.landing().rglob("*.gz"))
        return judge(read_source(objects, "id"), str(self.table), {}, self.letters(), ["id", "n"])

    @property
    def log_folder(self) -> Path:
        return self.table / "_delta_log"

    @property
    def copy(self) -> Path:
        return self.table / "_blizzard" / "events_landing_checkpoint.json"

    def versions(self) -> list[int]:
        return sorted(int(file.stem) for file in self.log_folder.glob("[0-9]*.json") if file.stem.isdigit())

    def actions(self, version: int) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.log_folder / f"{version:020d}.json").read_text().splitlines()]

    def user_metadata(self, version: int) -> str:
        return str(next(a["commitInfo"]["userMetadata"] for a in self.actions(version) if "commitInfo" in a))

    def state(self, version: int = -1) -> Checkpoint:
        """The checkpoint that the commit carries; of the newest one by default."""
        text = self.user_metadata(self.versions()[version])
        return decode(text, pipeline="events", source="landing")


def session_settings(warehouse: Path, *, s3_endpoint: str | None = None) -> dict[str, str]:
    """Those of the real job, for a session that lives for some tests."""
    conf = settings(jars_dir=str(JARS), s3_endpoint=s3_endpoint)
    own = {
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # VACUUM starts 10,000 tasks
        "spark.driver.extraJavaOptions": f"{conf['spark.driver.extraJavaOptions']} {SHORT_LIFE}",
        "spark.driver.memory": "1g",
        "spark.pyspark.python": sys.executable,
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.log.level": "ERROR",
        **SMALL_QUERIES,
    }
    return {**conf, **own}


def _line(record: Mapping[str, Any] | str | bytes) -> bytes:
    if isinstance(record, bytes):
        return record
    return record.encode() if isinstance(record, str) else json.dumps(record, ensure_ascii=False).encode()


def run(job: SourceJob, *, late: bool = False) -> Totals:
    """Sweep and drain."""
    job.sweep(late=False, announce=True)
    job.sweep(late=True, announce=late)
    return job.ingest.drain()


def ids(start: int, stop: int) -> list[dict[str, Any]]:
    """Records whose id says which they are."""
    return [{"id": f"{n}", "n": n} for n in range(start, stop)]


def event_of(part: Part, name: str, secs: float = PATIENCE_SECS) -> dict[str, Any]:
    """The next event of this name that the process prints."""
    deadline, ended = time.monotonic() + secs, False
    while time.monotonic() < deadline:
        try:
            event = part.events.get(timeout=0.5)
        except queue.Empty:
            assert not ended, f"it ended with {part.ended} before {name}"
            if part.ended is not None:
                part._reader.join(secs)  # what it said last may still be on its way
                ended = True
            continue
        if event["event"] == name:
            return event
    raise AssertionError(f"no {name} within {secs:g} s")


def exit_of(part: Part) -> int | None:
    until(lambda: part.ended is not None)
    return part.ended


def until(true: Callable[[], bool], secs: float = PATIENCE_SECS) -> None:
    """Wait for it; a condition that does not come about is a failure."""
    deadline = time.monotonic() + secs
    while not true():
        assert time.monotonic() < deadline, f"it did not come about within {secs:g} s"
        time.sleep(0.002)


def jobs_so_far(spark: SparkSession) -> int:
    """Of Spark: it forgets the older ones, and numbers all."""
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(None), default=-1) + 1
