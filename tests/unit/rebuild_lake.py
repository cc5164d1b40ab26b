"""A lake on the local disk with a configuration that a person wrote, for `blizzard rebuild` and the local engine."""

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from blizzard.config.load import load_config
from blizzard.config.model import Config
from blizzard.log import Log, silent
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.local.engine import LocalEngine
from spark_job.main import run_once
from spark_job.rebuild import process
from spark_job.rebuild.compare import Accepted
from spark_job.rebuild.main import with_table
from spark_job.rebuild.process import RebuildProcess
from spark_job.wiring import source_job

NOTHING = Accepted()
CONFIG = """\
# what the shop sells
pipelines:
  orders:
    table_uri: lake    # one table
    engine: local
    sources:
      shop:
        uri: incoming
        pattern: "**/*.ndjson"
        schema: "id STRING NOT NULL, amount BIGINT"
        settle_delay_secs: 0
"""


@dataclass
class RebuildLake:
    """`incoming/` goes into `lake/`."""

    folder: Path
    text: str = CONFIG
    landed: dict[str, list[str]] = field(default_factory=dict)
    """The ids of the good records of each file."""

    def __post_init__(self) -> None:
        (self.folder / "incoming").mkdir(parents=True, exist_ok=True)
        self.file.write_text(self.text)

    @property
    def file(self) -> Path:
        return self.folder / "pipelines.yaml"

    def config(self) -> Config:
        return load_config(self.file, {})

    def land(self, path: str, count: int = 3, *, bad: bool = False) -> None:
        """Of `count` records; `bad`: with one more that is refused."""
        ids = [f"{path} {number}" for number in range(count)]
        lines = [json.dumps({"id": each, "amount": number}) for number, each in enumerate(ids)]
        file = self.folder / "incoming" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([*lines, *(["{"] if bad else [])]) + "\n")
        self.landed[path] = ids

    def run(self, *, config: Config | None = None, log: Log = silent) -> int:
        jobs = [
            source_job(pipeline, source, engine=local_engine(), s3=S3Settings(), log=log)
            for pipeline, source in (config or self.config()).sources()
        ]
        return run_once(jobs, True, log, threading.Event())

    def copy_rows(self, table: str = "lake", *, without: str | None = None) -> None:
        """The table becomes one with the same rows and no log of Blizzard; `without`: rows of this file."""
        path = self.folder / table
        rows = DeltaTable(str(path)).to_pyarrow_table()
        if without is not None:
            kept = [each["file"] != without for each in rows["_source"].to_pylist()]
            rows = rows.filter(kept)
        become_table_of(path, rows)

    def process(
        self,
        *,
        log: Log = silent,
        agreed: Callable[[], bool] = lambda: True,
        stop: threading.Event | None = None,
    ) -> RebuildProcess:
        """What `blizzard rebuild` runs, in this process."""
        engine = local_engine()
        return RebuildProcess(self.config(), lambda _: engine, S3Settings(), agreed, stop or threading.Event(), log)

    def rebuild_table(self, to: str = "new", *, swap: bool = True, accepted: Accepted = NOTHING, **more: Any) -> int:
        """`--to`, without the change of the configuration."""
        old = self.config().pipelines["orders"]
        new = with_table(old, self.uri(to))
        return self.process(**more).rebuild_table(old, new, swap=swap, accepted=accepted)

    def uri(self, table: str) -> str:
        return f"file://{self.folder}/{table}"

    def check(self, table: str = "lake", *, gone: frozenset[str] = frozenset()) -> None:
        """Every record of every file is there once, and nothing else."""
        rows = DeltaTable(str(self.folder / table)).to_pyarrow_table().to_pylist()
        found = sorted((row["_source"]["file"], row["id"], row["amount"]) for row in rows)
        landed = [(path, each, n) for path, ids in self.landed.items() for n, each in enumerate(ids)]
        assert found == sorted(row for row in landed if row[0] not in gone)


def become_table_of(table: Path, rows: pa.Table) -> None:
    """A new table of these rows, whose log says nothing of Blizzard, takes the place of data and log."""
    copied = table.with_name("copied")
    write_deltalake(str(copied), rows)
    shutil.rmtree(table / "_delta_log")
    for file in table.glob("*.parquet"):
        file.unlink()
    for each in copied.iterdir():
        each.rename(table / each.name)
    copied.rmdir()


def local_engine() -> LocalEngine:
    return LocalEngine(S3Settings(), dict, silent, cores=1)


def told_by_process(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the process tells from now on."""
    found = list[dict[str, Any]]()
    monkeypatch.setattr(process, "tell", lambda **what: found.append(what))
    return found
