"""A small lake on the local disk, ingested by the local engine in this process, and audits of it."""

import gzip
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from blizzard.audit.audit import Audit
from blizzard.audit.report import AuditReport, Verdict
from blizzard.audit.snapshot import copy_of
from blizzard.audit.source import AuditedSource, audited_source
from blizzard.config.load import parse_config
from blizzard.config.model import Config
from blizzard.log import Log, silent
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry, FoundBy
from blizzard.processes import ReadingProcesses
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectInfo
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.local.engine import LocalEngine
from spark_job.main import run_once
from spark_job.rebuild.process import RebuildProcess
from spark_job.repair.wiring import repair_of
from spark_job.repair.wishes import Wish
from spark_job.repair.work import Result, Work
from spark_job.tasks.engine import Engine
from spark_job.wiring import SourceParts, source_job, source_parts

HOUR_SECS = 3_600.0
IDENTITY = SourceIdentity("orders", "shop", "_blizzard/orders_shop")


@dataclass
class OperatorWorld:
    """`incoming/` goes into the table `lake/`. `settings`, `pipeline`: more fields of the source and its pipeline.
    `beside`: other sources of the pipeline, by name."""

    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    pipeline: dict[str, Any] = field(default_factory=dict)
    beside: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "incoming").mkdir(parents=True, exist_ok=True)

    # -- the world

    @property
    def config_file(self) -> Path:
        file = self.folder / "pipelines.yaml"
        source = {
            "uri": "incoming",
            "pattern": "**/*.ndjson.gz",
            "schema": "id STRING NOT NULL, amount BIGINT",
            "settle_delay_secs": 0,
            **self.settings,
        }
        pipeline = {"table_uri": "lake", "engine": "local", "sources": {"shop": source, **self.beside}, **self.pipeline}
        file.write_text(json.dumps({"pipelines": {"orders": pipeline}}))
        return file

    def config(self) -> Config:
        return parse_config(self.config_file.read_text(), {}, folder=str(self.folder))

    def land(self, path: str, *ids: str | None) -> Path:
        """A file with a record for each id; None is one that is refused."""
        body = "".join(json.dumps({"id": each, "amount": number}) + "\n" for number, each in enumerate(ids))
        return self.land_bytes(path, gzip.compress(body.encode(), mtime=0))

    def land_bytes(self, path: str, data: bytes) -> Path:
        file = self.folder / "incoming" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_bytes(data)
        return file

    def announce(self, *paths: str) -> None:
        """As an event does."""
        copy = copy_of(self.source)
        infos = [found for path in paths if (found := self.source.files.head(path)) is not None]
        entries = [Entry(each.key, each.size, each.etag, each.modified_ts, FoundBy.EVENT) for each in infos]
        floor = 0 if copy is None else copy.position.segment
        self.manifest.append(entries, writer_id="collector", now_ts=time.time(), floor=floor)

    def run(self, *, sweep: bool = True) -> None:
        assert self.run_until(threading.Event(), silent, sweep=sweep) == 0

    def engine(self, log: Log) -> Engine:
        return LocalEngine(S3Settings(), dict, log, cores=1)

    def run_until(self, stop: threading.Event, log: Log, *, sweep: bool = True) -> int:
        """Returns the exit code."""
        engine = self.engine(log)
        jobs = [
            source_job(pipeline, source, engine=engine, s3=S3Settings(), log=log)
            for pipeline, source in self.config().sources()
        ]
        return run_once(jobs, sweep, log, stop)

    def repair(self, wish_of: Callable[[SourceParts], Wish]) -> list[Result]:
        """As `blizzard replay` and `blizzard replace` do it. Returns what became of each file."""
        pipeline, source = next(self.config().sources())
        parts = source_parts(pipeline, source, engine=self.engine(silent), s3=S3Settings(), log=silent)
        wish = wish_of(parts)
        assert wish.unreadable == []
        work = Work(wish.items)
        repair_of(parts, work).run()
        return [*wish.results, *work.results]

    def rebuild(self) -> int:
        """The states of all sources, as `blizzard rebuild` does it. Returns the exit code."""
        engine, config = self.engine(silent), self.config()
        process = RebuildProcess(config, lambda _: engine, S3Settings(), lambda: True, threading.Event(), silent)
        return process.rebuild_states([*config.sources()])

    def table(self) -> DeltaTable:
        return DeltaTable(str(self.lake))

    def rows(self) -> Iterator[tuple[str, int]]:
        """Of this source: file and number of each."""
        if not (self.lake / "_delta_log").is_dir():
            return
        for row in self.table().to_pyarrow_table(columns=["_source"])["_source"].to_pylist():
            if row["source"] == IDENTITY.source_id:
                yield row["file"], row["row"]

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def state(self) -> Path:
        return self.lake / IDENTITY.state_prefix

    # -- the audit

    @property
    def source(self) -> AuditedSource:
        pipeline, source = next(self.config().sources())
        return audited_source(pipeline, source, S3Settings())

    @property
    def manifest(self) -> Manifest:
        return Manifest(self.source.state, IDENTITY.state_prefix, IDENTITY.source_id)

    @contextmanager
    def auditing(self, *, later_secs: float = 0.0, **options: Any) -> Iterator[Audit]:
        """An audit that is still to run. `later_secs`: how late its clock is."""
        with tempfile.TemporaryDirectory() as folder:
            clock = lambda: time.time() + later_secs  # noqa: E731
            known = [source.id for _, source in self.config().sources()]
            yield Audit(self.source, ReadingProcesses(1), Path(folder), clock, known=known, **options)

    def audit(self, **options: Any) -> AuditReport:
        with self.auditing(**options) as audit:
            audit.run()
            return audit.report()


def assert_well(world: OperatorWorld) -> None:
    """An audit has nothing to say."""
    report = world.audit()
    assert (report.verdict, report.notices) == (Verdict.GOOD, []), report


def paths(report: AuditReport, kind: str) -> list[str]:
    return [each["path"] for each in report.names[kind]]


def kinds(report: AuditReport) -> list[str]:
    return sorted({notice.kind for notice in report.notices})


def info(path: str, modified_ts: float = 0.0) -> ObjectInfo:
    return ObjectInfo(path, 1, "e", modified_ts)


def files_below(folder: Path) -> Iterable[tuple[str, bytes]]:
    return sorted((str(file), file.read_bytes()) for file in folder.rglob("*") if file.is_file())
