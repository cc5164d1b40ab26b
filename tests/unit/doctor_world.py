"""A small lake on the local disk, ingested by the local engine in this process, and examinations of it."""

import gzip
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deltalake import DeltaTable

from blizzard.config.load import parse_config
from blizzard.doctor.check import Finding, Result, Verdict
from blizzard.doctor.doctor import Examination
from blizzard.log import silent
from blizzard.state.delta_log import commit_key
from blizzard.state.identity import SourceIdentity
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.local.engine import LocalEngine
from spark_job.main import run_once
from spark_job.wiring import source_job
from tests.unit.documents import ROOT, anchors

IDENTITY = SourceIdentity("orders", "shop", "_blizzard/orders_shop")
HOUR_SECS, DAY_SECS = 3_600.0, 86_400.0
NOTHING_WRONG = (Verdict.OK, Verdict.SKIPPED)


@dataclass
class DoctorWorld:
    """`incoming/` goes into the table `lake/`. `source` and `pipeline`: more fields of them."""

    folder: Path
    source: dict[str, Any] = field(default_factory=dict)
    pipeline: dict[str, Any] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "incoming").mkdir(parents=True, exist_ok=True)

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def state(self) -> Path:
        return self.lake / IDENTITY.state_prefix

    @property
    def store(self) -> LocalStore:
        return LocalStore(self.lake)

    @property
    def config_file(self) -> Path:
        file = self.folder / "pipelines.yaml"
        source = {
            "uri": "incoming",
            "pattern": "**/*.ndjson.gz",
            "schema": "id STRING NOT NULL, amount BIGINT",
            "settle_delay_secs": 0,
            **self.source,
        }
        pipeline = {"table_uri": "lake", "engine": "local", "sources": {"shop": source}, **self.pipeline}
        file.write_text(json.dumps({"pipelines": {"orders": pipeline}}))
        return file

    def land(self, path: str, *ids: str | None) -> Path:
        """A file with a record for each id; None is one that is refused."""
        body = "".join(json.dumps({"id": each, "amount": number}) + "\n" for number, each in enumerate(ids))
        file = self.folder / "incoming" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(body.encode(), mtime=0))
        return file

    def run(self) -> None:
        engine = LocalEngine(S3Settings(), dict, silent, cores=1)
        config = parse_config(self.config_file.read_text(), {}, folder=str(self.folder))
        jobs = [
            source_job(pipeline, source, engine=engine, s3=S3Settings(), log=silent)
            for pipeline, source in config.sources()
        ]
        assert run_once(jobs, True, silent, threading.Event()) == 0

    def commit(self, *actions: Mapping[str, Any]) -> None:
        """A foreign writer's."""
        version = DeltaTable(str(self.lake)).version() + 1
        lines = [json.dumps(action) for action in actions]
        (self.lake / commit_key(version)).write_text("\n".join(lines) + "\n")

    def set_properties(self, **properties: str) -> None:
        """Of the table; `__` stands for a dot."""
        first = (self.lake / commit_key(0)).read_text().splitlines()
        (metadata,) = (json.loads(line)["metaData"] for line in first if line.startswith('{"metaData"'))
        changed = {name.replace("__", "."): value for name, value in properties.items()}
        self.commit({"metaData": {**metadata, "configuration": {**metadata["configuration"], **changed}}})

    def examine(self, *, later_secs: float = 0.0) -> list[Result]:
        """`later_secs`: how late the clock is."""
        clock = lambda: time.time() + later_secs  # noqa: E731
        return [*Examination(str(self.config_file), self.environ, clock).results()]

    def finding(self, check_id: str, *, later_secs: float = 0.0) -> Finding:
        (found,) = (each.finding for each in self.examine(later_secs=later_secs) if each.id == check_id)
        return found


def ingested(folder: Path) -> DoctorWorld:
    """Two batches of two files."""
    for name, data in _ingested_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return DoctorWorld(folder)


@cache
def _ingested_files() -> Mapping[str, bytes]:
    """Ingested once, for all tests of a process."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        world = DoctorWorld(folder)
        for batch in range(2):
            for number in range(2):
                world.land(f"date=2026-11-2{batch}/{batch}{number}.ndjson.gz", "a", "b")
            world.run()
        return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def wrong(results: Iterable[Result]) -> list[tuple[str, str]]:
    """Every check that did not find all well, with what it says."""
    return [(each.id, each.finding.found) for each in results if each.verdict not in NOTHING_WRONG]


Fault = tuple[Callable[[DoctorWorld], object], str, Verdict, str]
"""What plants it, the id and the verdict of the check that finds it, and what that says."""


def assert_found_alone(fault: Fault, folder: Path, areas: tuple[str, ...]) -> None:
    """Planted in a healthy world, it is found under its id, and nothing else in these areas is wrong."""
    plant, check_id, verdict, said = fault
    world = ingested(folder)
    plant(world)
    results = world.examine()
    (found,) = (each.finding for each in results if each.id == check_id)
    assert (found.verdict, said in found.found) == (verdict, True), found
    assert_says_what_to_do(found)
    others = [each for each in wrong(results) if each[0].startswith(areas)]
    assert [each[0] for each in others] == [check_id], others


def assert_says_what_to_do(found: Finding) -> None:
    """And the sections that it names exist."""
    assert found.expected
    assert found.advice
    for page, anchor in re.findall(r"(docs/[a-z0-9-]+\.md)(?:#([a-z0-9_-]+))?", found.advice):
        assert not anchor or anchor in anchors(ROOT / page), found.advice


def write(file: Path, data: bytes) -> None:
    """Files of the lake have no second name that would change with them."""
    file.unlink()
    file.write_bytes(data)
