"""A table and its landing folders on the local disk, ingested by the real job."""

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

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from blizzard.config.load import parse_config
from blizzard.config.model import Config
from blizzard.config.spark_settings import settings
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.identity import SourceIdentity
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from infra.local.demo.reconcile import Reconciliation, read_source, reconcile
from infra.local.processes.child_process import ChildProcess
from spark_job.engines.spark.engine import SparkEngine
from spark_job.loop.ingest import Totals
from spark_job.tasks.engine import Engine
from spark_job.wiring import SourceJob, source_job

JARS = Path(__file__).resolve().parents[2] / "jars"
SCHEMA = "id STRING NOT NULL, n BIGINT"
SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options with which a JVM warms up in half the time."""
SMALL_QUERIES = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""For queries of a few rows: compiling a plan, or planning it again between its stages, takes longer than running it.
Jobs of the deployed stack, and tests that use `query_defaults`, have Spark's defaults."""
SHORT_JOB = {"spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {SHORT_LIFE}", **SMALL_QUERIES}
"""For a job in its own process that ingests a few files."""


def conf_options(conf: Mapping[str, str]) -> list[str]:
    """As the job's command takes them."""
    return [word for name, value in conf.items() for word in ("--spark-conf", f"{name}={value}")]


PATIENCE_SECS = 300.0
"""The longest wait for a job in a process of its own, on a busy machine."""


def no_spark() -> Any:
    """In the place of a session, where the local engine is alone."""
    raise AssertionError("Spark was asked for")


@dataclass
class Lake:
    """`settings` are those of the source, as in pipelines.yaml; a test may change them between two runs."""

    folder: Path
    spark: Callable[[], SparkSession]
    settings: dict[str, Any] = field(default_factory=dict)
    table_settings: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    meanwhile: dict[str, Callable[[], object]] = field(default_factory=dict)
    """By log event: what happens, once, when a job logs it, such as another job, a crash, or a change of files."""

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
        """The file appears at once with all its content, as an object does."""
        file = self.landing(source) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.folder / "unfinished"
        unfinished.write_bytes(body)
        return unfinished.rename(file)

    def announce(self, *paths: str, source: str = "landing") -> None:
        """Append the events of these files to the manifest, as the collector does."""
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
        """As in a new process: without any memory of earlier runs."""
        found = self.config(sources).sources()
        return [source_job(p, s, engine=self.engine(), s3=S3Settings(), log=self._note) for p, s in found]

    def engine(self) -> Engine:
        """Of one job."""
        return SparkEngine(self.spark)

    def job(self) -> SourceJob:
        return self.jobs()[0]

    def run(self, *, late: bool = False) -> Totals:
        """What `blizzard run --once` does."""
        return run(self.job(), late=late)

    @contextmanager
    def process(self, *, engine: str = "spark", in_this_jvm: bool = False) -> Iterator[ChildProcess]:
        """The job in a process of its own, which is gone at the end of the block; if it needs a JVM, with one of its
        own, or with that of this lake's session."""
        module, environment = "spark_job.main", {}
        if in_this_jvm:
            gateway = self.spark().sparkContext._gateway.gateway_parameters
            environment = {"PYSPARK_GATEWAY_PORT": f"{gateway.port}", "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
            module = "tests.spark.attached_job"
        options = ["--config", str(self.folder / "pipelines.yaml"), "--jars", str(JARS), "--engine", engine]
        options += ["--sweep", "--once"]
        conf = conf_options({**SHORT_JOB, "spark.sql.shuffle.partitions": "2"})
        with ChildProcess([module, *options, *conf], environment, self.folder / "job.log") as part:
            yield part

    def _note(self, event: str, /, **fields: object) -> None:
        self.events.append({"event": event, **fields})
        self.meanwhile.pop(event, lambda: None)()

    def logged(self, event: str) -> list[dict[str, Any]]:
        """The lines of the log with this event."""
        return [line for line in self.events if line["event"] == event]

    # -- what is there

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the table, read by another engine, in the order of files and records."""
        return sorted(
            self.rows_unsorted(),
            key=lambda row: (row["_source"]["source"], row["_source"]["file"], row["_source"]["row"]),
        )

    def rows_unsorted(self) -> list[dict[str, Any]]:
        """Includes rows of other writers, which have no `_source`."""
        rows: list[dict[str, Any]] = self._arrow_table().to_pylist()
        return rows

    def arrow_rows(self) -> pa.Table:
        """As `rows`, for tables with many."""
        table = self._arrow_table()
        places = pa.Table.from_arrays(
            [pc.struct_field(table["_source"], name) for name in ("source", "file", "row")], ["source", "file", "row"]
        )
        return table.take(pc.sort_indices(places, [(name, "ascending") for name in places.column_names]))

    def _arrow_table(self) -> pa.Table:
        reading = ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")  # as Spark writes them
        return DeltaTable(str(self.table)).to_pyarrow_dataset(parquet_read_options=reading).to_table()

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

    def receipts(self, source: str = "landing") -> list[dict[str, Any]]:
        """The documents, in the order of their sequences."""
        files = sorted((self.table / "_blizzard" / f"events_{source}" / "receipts").iterdir())
        return [json.loads(gzip.decompress(file.read_bytes())) for file in files]

    def verdict(self) -> Reconciliation:
        """About all files that are in `landing` now, which must be gzipped NDJSON."""
        objects = ((f.relative_to(self.landing()).as_posix(), f.read_bytes()) for f in self.landing().rglob("*.gz"))
        return reconcile(read_source(objects, "id"), str(self.table), {}, self.letters(), ["id", "n"])

    @property
    def log_folder(self) -> Path:
        return self.table / "_delta_log"

    @property
    def copy(self) -> Path:
        return self.table / "_blizzard" / "events_landing_checkpoint.json"

    def versions(self) -> list[int]:
        return sorted(int(file.stem) for file in self.log_folder.glob("[0-9]*.json") if file.stem.isdigit())

    def actions(self, version: int) -> list[dict[str, Any]]:
        # `str.splitlines` would also divide at U+2028, which JSON leaves as it is.
        lines = (self.log_folder / f"{version:020d}.json").read_bytes().splitlines()
        return [json.loads(line) for line in lines]

    def user_metadata(self, version: int) -> str:
        return str(next(a["commitInfo"]["userMetadata"] for a in self.actions(version) if "commitInfo" in a))

    def state_beside(self) -> Checkpoint:
        """The copy, as the last job left it."""
        return self._codec().read_copy()

    def _codec(self) -> CheckpointCodec:
        return CheckpointCodec(LocalStore(self.table), SourceIdentity("events", "landing", "_blizzard/events_landing"))

    def state(self, version: int = -1) -> Checkpoint:
        """The checkpoint in a commit, by default in the newest."""
        return self._codec().decode(self.user_metadata(self.versions()[version]))


def session_settings(warehouse: Path, *, s3_endpoint: str | None = None) -> dict[str, str]:
    """The settings of the real job, with less memory and parallelism for tests."""
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


@contextmanager
def as_in_production(spark: SparkSession) -> Iterator[None]:
    """Spark plans and compiles queries as jobs of the deployed stack have it."""
    for name in SMALL_QUERIES:
        spark.conf.unset(name)
    try:
        yield
    finally:
        for name, value in SMALL_QUERIES.items():
            spark.conf.set(name, value)


def _line(record: Mapping[str, Any] | str | bytes) -> bytes:
    if isinstance(record, bytes):
        return record
    return record.encode() if isinstance(record, str) else json.dumps(record, ensure_ascii=False).encode()


def run(job: SourceJob, *, late: bool = False) -> Totals:
    """Sweep and drain."""
    job.sweep(late=False, record_if_empty=True)
    job.sweep(late=True, record_if_empty=late)
    return job.ingest.drain()


def ids(start: int, stop: int) -> list[dict[str, Any]]:
    """Records with the ids `start` (inclusive) to `stop` (exclusive)."""
    return [{"id": f"{n}", "n": n} for n in range(start, stop)]


def event_of(part: ChildProcess, name: str, secs: float = PATIENCE_SECS) -> dict[str, Any]:
    """The next event of this name that the process prints."""
    deadline, ended = time.monotonic() + secs, False
    while time.monotonic() < deadline:
        try:
            event = part.events.get(timeout=0.5)
        except queue.Empty:
            assert not ended, f"the job ended with {part.exit_status} before {name}"
            if part.exit_status is not None:
                part._reader.join(secs)  # its last lines may still be in the pipe
                ended = True
            continue
        if event["event"] == name:
            return event
    raise AssertionError(f"no {name} within {secs:g} s")


def exit_of(part: ChildProcess) -> int | None:
    until(lambda: part.exit_status is not None)
    return part.exit_status


def until(condition: Callable[[], bool], secs: float = PATIENCE_SECS) -> None:
    """Wait until the condition holds; fails after `secs`."""
    deadline = time.monotonic() + secs
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not hold within {secs:g} s"
        time.sleep(0.002)


def jobs_so_far(spark: SparkSession) -> int:
    """The number of Spark jobs that were started, less one. Spark forgets older jobs, but numbers all of them."""
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(None), default=-1) + 1
