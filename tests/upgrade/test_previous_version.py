"""A lake as the previous version left it: this version continues from its tables and state, nothing lost or doubled.

`0.1.0.tar.gz` was made by `make.py` in a checkout of commit cfd617b, the last one before the code was restructured, and
`before-ledger.tar.gz` by `make.py … random` in one of commit 0dccedb, the last one without the ledger.
"""

import gzip
import json
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.environment import variables
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.server_process import LocalAws
from tests.proof.bad_storage.daemon import SHIPPED
from tests.spark.lake import SHORT_JOB, conf_options
from tests.upgrade.make import CONFIG, LARGE_RECORDS

ARCHIVE = Path(__file__).with_name("0.1.0.tar.gz")
BEFORE_LEDGER = Path(__file__).with_name("before-ledger.tar.gz")
"""Files with random names; the state has schema version 3."""
LARGE = "date=2026-01-04/0200-large.ndjson"
OVERWRITTEN = "date=2026-01-01/0001.ndjson.gz"
LAST_SEQUENCE = 13
"""Of `events`, in the archive."""


@dataclass(frozen=True)
class OldLake:
    """The archive's objects in a bucket, as `landing/…` and `lake/…`."""

    aws: LocalAws
    bucket: str
    config: Path
    jobs: "subprocess.Popen[str]"
    engine: str = "auto"
    """The default of `blizzard run`; on AWS it is spark."""

    @property
    def _client(self) -> Any:
        return self.aws.client("s3")

    def unpack(self, archive: Path) -> None:
        with tarfile.open(archive) as tar:
            for entry in tar:
                content = tar.extractfile(entry)
                assert content is not None
                self.put(entry.name, content.read())

    def put(self, key: str, body: bytes) -> None:
        self._client.put_object(Bucket=self.bucket, Key=key, Body=body)

    def objects(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
            for found in page.get("Contents", ()):
                body = self._client.get_object(Bucket=self.bucket, Key=found["Key"])["Body"].read()
                yield found["Key"].removeprefix(prefix), body

    def delete(self, prefix: str) -> None:
        keys = [key for key, _ in self.objects(prefix)]
        assert keys
        for key in keys:
            self._client.delete_object(Bucket=self.bucket, Key=prefix + key)

    def run(self) -> list[dict[str, Any]]:
        """Sweep and ingest by the real job; its log events."""
        assert self.jobs.stdin is not None
        assert self.jobs.stdout is not None
        words = ["--config", str(self.config), "--once", "--sweep", "--jars", str(CHECKOUT / "jars")]
        words += ["--engine", self.engine]
        words += conf_options({"spark.driver.memory": "1g", **SHORT_JOB})
        print(json.dumps(words), file=self.jobs.stdin, flush=True)
        events: list[dict[str, Any]] = []
        for line in self.jobs.stdout:
            events += [json.loads(line)] if line.startswith("{") else []
            if events and events[-1]["event"] == "exit":
                assert events.pop()["code"] == 0, events[-30:]
                return events
        pytest.fail(f"the job ended with {self.jobs.wait()} after {events[-30:]}")

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.delta(table).to_pyarrow_table().to_pylist()
        return rows

    def delta(self, table: str) -> DeltaTable:
        options = {**self.aws.environment(), "AWS_ALLOW_HTTP": "true"}
        return DeltaTable(f"s3://{self.bucket}/lake/{table}", storage_options=options)

    def store(self, prefix: str) -> S3Store:
        return S3Store(self.bucket, prefix, S3Settings.from_environment(self.aws.environment()))

    def announce_all(self, table: str) -> None:
        """The events of all files come again."""
        entries = [Entry(f.key, f.size, f.etag, time.time()) for f in self.store(f"landing/{table}/").list("")]
        manifest = Manifest(self.store(f"lake/{table}/"), f"_blizzard/{table}_landing", f"{table}:landing")
        manifest.append(entries, writer_id="collector", now_ts=time.time())

    def dead_letters(self) -> list[tuple[str, int | None]]:
        letters = DeadLetters(self.store("lake/events/"), "_blizzard/events_landing", "events:landing").letters()
        return sorted((letter["path"], letter.get("row")) for letter in letters)


@pytest.fixture(scope="module")
def jobs(aws: LocalAws) -> Iterator["subprocess.Popen[str]"]:
    """A process that runs the job again and again, with one JVM."""
    command = [sys.executable, "-m", "tests.proof.bad_storage.daemon", SHIPPED]
    environment = {**variables(), **aws.environment()}
    with subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdin=PIPE, stdout=PIPE, text=True) as process:
        yield process


@pytest.fixture
def empty_lake(
    aws: LocalAws,
    bucket: str,
    jobs: "subprocess.Popen[str]",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> OldLake:
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG.read_text().replace("s3://", f"s3://{bucket}/"))
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)
    return OldLake(aws, bucket, config, jobs)


@pytest.fixture
def lake(empty_lake: OldLake) -> OldLake:
    empty_lake.unpack(ARCHIVE)
    return empty_lake


def landed(lake: OldLake) -> Counter[tuple[str, int, str]]:
    """What the table must hold: path, record number and id of each good record, whichever version read it."""
    expected: Counter[tuple[str, int, str]] = Counter()
    for path, body in lake.objects("landing/events/"):
        if path == OVERWRITTEN:  # on_overwrite: dead_letter keeps the rows of the first content
            expected.update((path, row, f"1-{row}") for row in range(5))
            continue
        try:
            lines = (gzip.decompress(body) if path.endswith(".gz") else body).decode().splitlines()
        except EOFError:
            continue
        for row, line in enumerate(lines):
            record = _good_record(line)
            if record is not None:
                expected[path, row, record["id"]] += 1
    return expected


def _good_record(line: str) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        return None
    return record if "id" in record and isinstance(record["n"], int) else None


def in_table(lake: OldLake) -> Counter[tuple[str, int, str]]:
    return Counter((row["_source"]["file"], row["_source"]["row"], row["id"]) for row in lake.rows("events"))


def committed(events: list[dict[str, Any]], source: str) -> list[int]:
    return [e["sequence"] for e in events if e["event"] == "batch_committed" and e["source"] == source]


def land_more(lake: OldLake) -> None:
    body = gzip.compress(b'{"id": "landed after the upgrade", "n": 1}\n')
    lake.put("landing/events/date=2026-01-05/0400.ndjson.gz", body)
    lake.put("landing/events/date=2026-01-02/0009a-late.ndjson.gz", body)


def test_the_archive_holds_every_kind_of_state(lake: OldLake) -> None:
    keys = [key for key, _ in lake.objects("lake/events/")]
    assert any(key.endswith(".checkpoint.parquet") for key in keys)
    assert any(key.startswith("_blizzard/events_landing/pending/") for key in keys)
    [state] = [body for key, body in lake.objects("lake/events/_blizzard/events_landing_checkpoint.json")]
    assert 0 < json.loads(state)["source_state"]["files"][LARGE]["RecordsRead"] < LARGE_RECORDS
    assert json.loads(state)["sequence"] == LAST_SEQUENCE
    assert len(lake.dead_letters()) == 5
    assert landed(lake) - in_table(lake)


@pytest.mark.parametrize("engine", ["spark", "auto"])
def test_ingestion_continues_on_the_tables_of_the_previous_version(lake: OldLake, engine: str) -> None:
    lake = replace(lake, engine=engine)
    letters = lake.dead_letters()
    land_more(lake)
    events = lake.run()

    assert in_table(lake) == landed(lake)
    assert [row["value"] for row in lake.rows("notes") if row["_source"]["file"] == "4.txt"] == ["announced"]
    assert lake.dead_letters() == letters
    assert [event for event in events if event["event"] == "repair_began"] == []
    sequences = committed(events, "events:landing")
    assert sequences == list(range(LAST_SEQUENCE + 1, LAST_SEQUENCE + 1 + len(sequences)))

    again = lake.run()
    assert committed(again, "events:landing") == committed(again, "notes:landing") == []


def test_ingestion_continues_when_the_state_copy_and_the_manifest_are_gone(lake: OldLake) -> None:
    lake.delete("lake/events/_blizzard/events_landing_checkpoint.json")
    lake.delete("lake/events/_blizzard/events_landing/pending/")
    land_more(lake)
    lake.run()
    assert in_table(lake) == landed(lake)


@pytest.mark.parametrize("receipts", [True, False], ids=["receipts", "no receipts"])
def test_files_with_random_names_get_their_ledger_at_the_first_run(empty_lake: OldLake, receipts: bool) -> None:
    """Each old file is announced again. Of some files a user has deleted rows: of one in each folder, all of them. Only
    receipts know these files; without them they are new."""
    lake = empty_lake
    lake.unpack(BEFORE_LEDGER)
    old, notes = in_table(lake), len(lake.rows("notes"))
    lost = "', '".join(name for _, row, name in old if name.partition("-")[0] in {"0", "1", "2"} or row == 1)
    lake.delta("events").delete(f"id IN ('{lost}')")
    left = in_table(lake)
    assert 0 < left.total() < old.total()
    if not receipts:
        lake.delete("lake/events/_blizzard/events_landing/receipts/")
        lake.delete("lake/notes/_blizzard/notes_landing/receipts/")
    for table in ("events", "notes"):
        lake.announce_all(table)
    land_more(lake)
    lake.put("landing/notes/0a6d1f6c-5d4c-4d0e-8a06-6a1e40f1e9d7.txt", b"landed after the upgrade\n")
    events = lake.run()

    new = [row["id"] for row in lake.rows("events") if row["id"] == "landed after the upgrade"]
    assert len(new) == 2
    known = {file for file, *_ in (old if receipts else left)}
    gone = Counter({row: count for row, count in (old - left).items() if row[0] in known})
    assert gone
    assert in_table(lake) == landed(lake) - gone
    assert len(lake.rows("notes")) == notes + 1
    rebuilt = [event for event in events if event["event"] == "ledger_rebuilding"]
    assert {event["source"] for event in rebuilt} == (set() if receipts else {"events:landing", "notes:landing"})
    assert all(event["from_table"] for event in rebuilt)
