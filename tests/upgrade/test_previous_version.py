"""A lake as the previous version left it: this version continues from its tables and state, nothing lost or doubled.

`0.1.0.tar.gz` was made by `make.py` in a checkout of commit cfd617b, the last one before the code was restructured.
"""

import gzip
import json
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.environment import variables
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.server_process import LocalAws
from tests.proof.bad_storage.daemon import SHIPPED
from tests.spark.lake import SHORT_JOB, conf_options
from tests.upgrade.make import CONFIG, LARGE_RECORDS

ARCHIVE = Path(__file__).with_name("0.1.0.tar.gz")
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

    @property
    def _client(self) -> Any:
        return self.aws.client("s3")

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
        options = {**self.aws.environment(), "AWS_ALLOW_HTTP": "true"}
        found = DeltaTable(f"s3://{self.bucket}/lake/{table}", storage_options=options).to_pyarrow_table()
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def dead_letters(self) -> list[tuple[str, int | None]]:
        settings = S3Settings.from_environment(self.aws.environment())
        store = S3Store(self.bucket, "lake/events/", settings)
        letters = DeadLetters(store, "_blizzard/events_landing", "events:landing").letters()
        return sorted((letter["path"], letter.get("row")) for letter in letters)


@pytest.fixture(scope="module")
def jobs(aws: LocalAws) -> Iterator["subprocess.Popen[str]"]:
    """A process that runs the job again and again, with one JVM."""
    command = [sys.executable, "-m", "tests.proof.bad_storage.daemon", SHIPPED]
    environment = {**variables(), **aws.environment()}
    with subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdin=PIPE, stdout=PIPE, text=True) as process:
        yield process


@pytest.fixture
def lake(
    aws: LocalAws,
    bucket: str,
    jobs: "subprocess.Popen[str]",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> OldLake:
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG.read_text().replace("s3://", f"s3://{bucket}/"))
    lake = OldLake(aws, bucket, config, jobs)
    with tarfile.open(ARCHIVE) as archive:
        for entry in archive:
            content = archive.extractfile(entry)
            assert content is not None
            lake.put(entry.name, content.read())
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)
    return lake


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


def test_ingestion_continues_on_the_tables_of_the_previous_version(lake: OldLake) -> None:
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
