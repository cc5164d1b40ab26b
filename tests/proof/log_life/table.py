"""One table through all events on its log and its files."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyarrow import parquet

from blizzard.config.load import parse_config
from blizzard.log import silent
from blizzard.storage.s3_connection import S3Settings
from infra.local.demo.reconcile import Reconciliation, Record, compare, read_source
from spark_job.engines.auto import AutoEngine
from spark_job.engines.local.engine import LocalEngine
from spark_job.engines.spark.engine import SparkEngine
from spark_job.loop.ingest import Step
from spark_job.tasks.engine import Engine
from spark_job.wiring import SourceJob, source_job
from tests.proof import large_file
from tests.proof.job_engines import JOBS_OF
from tests.spark.lake import SCHEMA, Lake

INTERVAL_BYTES = 30_000
BATCH = {"checkpoint": {"interval_files": 3, "interval_bytes": INTERVAL_BYTES}, "sweep": {"late_overlap_secs": 1}}
"""A late sweep looks back no further than it must, so that it does not repair what an earlier one left out."""

ANNOUNCED = 5


@dataclass
class Life(Lake):
    """One table through all events. `removed`: records that were deleted on purpose. `gone`: those of them that must
    not come back, since ledger, receipts or other rows of their files show that these are settled."""

    place: str = "table"
    removed: set[Record] = field(default_factory=set)
    gone: set[Record] = field(default_factory=set)
    receipts_whole: bool = True
    """Whether the ledger could be made again from receipts alone."""
    partitioned: bool = False
    """By `kind`, which users change."""
    vacuumed_at: int = -1
    """The version at which data files of all older versions were removed."""
    history: list[str] = field(default_factory=list)
    backup: "tuple[Path, set[Record], set[Record]] | None" = None
    """A copy of the table, and what was `removed` and `gone` then."""
    aside: str = ""
    """The location of the table that a copy was made of."""
    cleanups: int | None = None
    """Number of the last clean-up, which decides its form; None: there was none."""
    cleaned_behind: list[str] = field(default_factory=list)
    """The checkpoints after which the log was cleaned up."""
    _files: int = 0
    _records: int = 0
    _foreign: int = 0
    _moves: int = 0
    started: Counter[str] = field(default_factory=Counter)
    """Jobs by their engine, as `JOBS_OF` names them."""

    def __post_init__(self) -> None:
        self.settings = {**self.settings, "schema": f"{SCHEMA}, kind STRING"}
        self.table_settings = {"partition_by": self.partition_by}

    @property
    def partition_by(self) -> list[str]:
        return ["kind"] if self.partitioned else []

    @property
    def table(self) -> Path:
        return self.folder / self.place

    def move(self) -> None:
        """The table is at a new location from now on; the caller moves it there."""
        self._moves += 1
        self.place = f"table-{self._moves}"
        self.forget_in_memory()

    # -- what arrives

    def arrive(self, rng: random.Random) -> None:
        """A few files with random names, some of them announced; now and then one larger than a batch."""
        paths = []
        for _ in range(rng.randint(1, 3)):
            self._files += 1
            folder = rng.choice(("", *(f"day={day}/" for day in (1, 2, 3))))
            path = f"{folder}{rng.randrange(16**6):06x}-{self._files}.ndjson.gz"
            large = rng.random() < 0.15
            self.put(path, *(self._large(rng) if large else self._made(rng, rng.randint(0, 5))))
            paths.append(path)
        if rng.random() < 0.5:
            self.announce(*paths)

    def arrive_above_all(self, rng: random.Random, *, large: bool = False) -> None:
        """A file whose name no earlier state contains."""
        self._files += 1
        path = f"day=3/new-{self._files:06d}.ndjson.gz"
        self.put(path, *(self._large(rng) if large else self._made(rng, rng.randint(1, 5))))
        self.announce(path)

    def _large(self, rng: random.Random) -> Iterator[dict[str, object]]:
        return self._made(rng, large_file.RECORDS, large_file.ID_BYTES)

    def _made(self, rng: random.Random, count: int, row_bytes: int = 24) -> Iterator[dict[str, object]]:
        for _ in range(count):
            self._records += 1
            kind = "even" if self._records % 2 == 0 else "odd"
            yield {"id": f"{self._records}-{rng.randbytes(row_bytes).hex()}", "n": self._records, "kind": kind}

    # -- the job

    def job_named(self, pipeline: str, source: str) -> SourceJob:
        """The same files and table under other names."""
        named = {source: {**self.settings, "uri": str(self.landing())}}
        document = {"pipelines": {pipeline: self.document(named)["pipelines"]["events"]}}
        ((found, its),) = parse_config(json.dumps(document), {}, folder=str(self.folder)).sources()
        return source_job(found, its, engine=self.engine(), s3=S3Settings(), log=self._note)

    def engine(self) -> Engine:
        """Spark, or the local engine with Spark for what only Spark can do, by turns."""
        chosen = [*JOBS_OF][self.started.total() % len(JOBS_OF)]
        self.started[JOBS_OF[chosen]] += 1
        spark = SparkEngine(self.spark)
        if chosen == "spark":
            return spark
        return AutoEngine(LocalEngine(S3Settings(), dict, silent), lambda: spark, self._note)

    def begin(self, steps: int) -> None:
        """A job that ends after a few batches, even if files are left."""
        job = self.job()
        job.sweep(late=False, record_if_empty=True)
        for _ in range(steps):
            if job.ingest.step(draining=True) is Step.IDLE:
                break

    def in_part(self) -> bool:
        """Whether the table has some records of a file but not all."""
        return any(read < large_file.RECORDS for read in self.state_beside().in_progress.values())

    def states_in_log(self) -> list[int]:
        """The versions of the commits that carry a state of this source."""
        return [version for version in self.versions() if any("txn" in action for action in self.actions(version))]

    # -- what others do

    def sql(self, text: str) -> None:
        self.spark().sql(text.format(table=f"delta.`{self.table}`"))

    def delete(self, condition: str) -> None:
        before = self.records()
        self.sql(f"DELETE FROM {{table}} WHERE {condition}")
        self.note_deleted(before)

    def note_deleted(self, before: set[Record]) -> None:
        """Of the records that were there before, those that are not any more must stay away."""
        now = self.records()
        self.removed = self.removed - now | before - now
        self.gone = self.gone - now | before - now

    def lose_ledger(self, *, receipts: bool) -> None:
        """`receipts`: some of them are lost, too, or of no use. What ledger and receipts do not say, only rows do: a
        file without any is new."""
        self.receipts_whole = self.receipts_whole and not receipts
        if not self.receipts_whole:
            known = self.files_in_table()
            self.gone = {record for record in self.gone if record[0] in known}

    def last_rows(self) -> dict[str, int]:
        """By file, the number of its last row in the table."""
        last: dict[str, int] = {}
        for file, row in self.records():
            last[file] = max(row, last.get(file, row))
        return last

    def repair_from_rows(self, last_rows: Mapping[str, int]) -> None:
        """A job has rebuilt its state, and for some commits only from rows, of which each file had `last_rows` before.
        A large file then counts as read up to its last one."""
        self.receipts_whole = False
        large = {file for file in last_rows if self._is_large(file)}
        self.gone = {
            (file, row) for file, row in self.gone if file in last_rows and (file not in large or row < last_rows[file])
        }

    def _is_large(self, file: str) -> bool:
        return (self.landing() / file).stat().st_size > INTERVAL_BYTES

    def without_rows(self) -> set[str]:
        """Files whose rows were all deleted."""
        return {file for file, _ in self.removed} - self.files_in_table()

    def announce_removed(self, rng: random.Random) -> None:
        """Some files of which records must stay away."""
        files = sorted({file for file, _ in self.gone})
        self.announce(*rng.sample(files, min(len(files), ANNOUNCED)))

    def restorable(self) -> list[int]:
        """Versions whose data files are there."""
        return [version for version in self.versions() if version >= self.vacuumed_at]

    def newest_record(self) -> int:
        """The highest `n` so far."""
        return self._records

    def commit_txn(self, version: int) -> None:
        """With Delta's public writer, without a row."""
        table = self.spark().read.format("delta").load(str(self.table))
        txn = {"txnAppId": "blizzard:events:landing", "txnVersion": str(version)}
        table.limit(0).write.format("delta").mode("append").options(**txn).save(str(self.table))

    def insert_foreign_row(self) -> None:
        """A commit of another program."""
        theirs = f"named_struct('source', 'them', 'file', 'theirs', 'row', {self._foreign}L, 'sequence', 7L)"
        names = "source STRING, file STRING, row BIGINT, etag STRING, modified TIMESTAMP, sequence BIGINT"
        self._foreign += 1
        made = f"from_json(to_json({theirs}), '{names}')"
        self.sql(f"INSERT INTO {{table}} (id, n, _source) SELECT 'foreign', -1, {made}")

    @contextmanager
    def conf(self, **changes: str) -> Iterator[None]:
        """Settings of the session; two underscores stand for a dot."""
        spark, names = self.spark(), {name.replace("__", "."): value for name, value in changes.items()}
        for name, value in names.items():
            spark.conf.set(name, value)
        try:
            yield
        finally:
            for name in names:
                spark.conf.unset(name)

    def make_checkpoint(self) -> None:
        """As Delta writes one every ten commits, in the form that table and session ask for."""
        log = self.delta_log()
        none = self.java.scala.Option.empty()
        log.checkpoint(log.update(False, none, none), none)

    def delta_log(self) -> Any:
        """Delta's own object."""
        delta = self.java.org.apache.spark.sql.delta
        return delta.DeltaLog.forTable(self.spark()._jsparkSession, str(self.table))

    @property
    def java(self) -> Any:
        return self.spark()._jvm

    def delta_says_txn(self) -> bool:
        """Whether Delta's snapshot has a Txn of this source."""
        none = self.java.scala.Option.empty()
        known = self.delta_log().update(False, none, none).transactions()
        return bool(known.contains("blizzard:events:landing"))

    def forget_in_memory(self) -> None:
        """As in a new process, without any cache."""
        self.java.org.apache.spark.sql.delta.DeltaLog.clearCache()

    # -- what is there

    def records(self) -> set[Record]:
        """Of this source, in the table."""
        return {(row["_source"]["file"], row["_source"]["row"]) for row in self.own_rows()}

    def files_in_table(self) -> set[str]:
        return {file for file, _ in self.records()}

    def own_rows(self) -> list[dict[str, Any]]:
        """Those of this source."""
        rows = (row for row in self.rows_unsorted() if row.get("_source"))
        return [row for row in rows if row["_source"]["source"] == "events:landing"]

    def committed(self) -> tuple[list[int], dict[str, bytes]]:
        """What a refused job must not change: the versions of the log, and the copy of each source's state."""
        copies = (self.table / "_blizzard").glob("*_checkpoint.json")
        return self.versions(), {file.name: file.read_bytes() for file in copies}

    def rows_unsorted(self) -> list[dict[str, Any]]:
        """Reads the data files directly: deltalake lists them, but does not read a table with V2 checkpoints."""
        files = DeltaTable(str(self.table)).file_uris() if self.versions() else []
        paths = [file.rpartition("file:")[2] for file in files]  # a clone names the files of another table in full
        return [row for path in paths for row in parquet.read_table(path).to_pylist()]

    def verdict(self) -> Reconciliation:
        objects = ((f.relative_to(self.landing()).as_posix(), f.read_bytes()) for f in self.landing().rglob("*.gz"))
        rows = [row for row in self.rows_unsorted() if row.get("_source")]
        return compare(read_source(objects, "id"), rows, self.letters(), ["id", "n"])

    def judged(self) -> Reconciliation:
        """Without rows of other programs and records that were deleted on purpose. Deleted records that came back are
        unexpected."""
        verdict = self.verdict()
        came_back = sorted(self.gone & self.records()) if self.gone else []
        return replace(
            verdict,
            unexpected=[*(record for record in verdict.unexpected if record[0] != "theirs"), *came_back],
            missing=[record for record in verdict.missing if record not in self.removed],
        )
