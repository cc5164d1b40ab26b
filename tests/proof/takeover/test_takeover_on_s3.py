"""The real job takes tables of the first Blizzard over where they lie on S3, and keeps no credentials beside them."""

import gzip
import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable

from blizzard.storage.base import ObjectStore
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from infra.local.processes.child_process import ChildProcess
from tests.echoing import ENVIRONMENT, SECRETS, EchoingS3, serving
from tests.fixtures_s3 import BUCKET
from tests.proof.takeover.older_table import Form, OlderTable
from tests.spark.lake import JARS, SCHEMA, SHORT_JOB, Lake, conf_options, until


@dataclass(frozen=True, slots=True)
class Moved:
    """A past that is made on local files and lies on S3, each file from the moment it lands."""

    older_table: OlderTable
    place: str
    endpoint: str

    @property
    def store(self) -> ObjectStore:
        return open_store(f"{self.place}/", S3Settings(self.endpoint, "us-east-1"))

    def land(self, name: str, day: int, records: int) -> str:
        path = self.older_table.land(name, day=day, records=records)
        self.store.put(f"raw/{path}", (self.older_table.lake.landing() / path).read_bytes())
        return path

    def move_table(self) -> None:
        table = self.older_table.lake.table
        for file in table.rglob("*"):
            if file.is_file():
                self.store.put(f"table/{file.relative_to(table).as_posix()}", file.read_bytes())

    def pipeline(self) -> dict[str, object]:
        source = {"uri": f"{self.place}/raw", "schema": SCHEMA, "partition_columns": {"date": "string"}}
        return {
            "table_uri": f"{self.place}/table",
            "partition_by": ["date"],
            "sources": {"landing": {**source, "settle_delay_secs": 0}},
        }

    def found(self) -> Counter[str]:
        options = {**ENVIRONMENT, "AWS_ENDPOINT_URL": self.endpoint, "AWS_ALLOW_HTTP": "true"}
        table = DeltaTable(f"{self.place}/table", storage_options=options).to_pyarrow_table(columns=["id"])
        return Counter(table["id"].to_pylist())

    def kept(self) -> Iterator[tuple[str, bytes]]:
        """Every object below the table, the log's and the rows' too."""
        for info in self.store.list("table/"):
            body = self.store.get(info.key)
            yield info.key, gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body


def moved(folder: Path, form: Form, endpoint: str) -> Moved:
    lake = Lake(folder, lambda: pytest.fail("it runs in a process of its own"))
    folder.mkdir()
    older_table = OlderTable(lake, form, Random(5))
    table = Moved(older_table, f"s3://{BUCKET}/{uuid.uuid4().hex}", endpoint)
    older_table.create()
    for day in (2, 3):
        older_table.ingest(table.land("5-first", day, 20), table.land("6-second", day, 3))
    if form is Form.ONE_PROGRAM:
        partly = table.land("7-partly", 3, 30)
        older_table.ingest(partly, partly=partly)
    table.move_table()
    said_ts = time.time()
    until(lambda: time.time() >= int(said_ts) + 1)
    return table


@pytest.mark.spark
def test_a_takeover_on_s3_resumes_and_stores_no_credentials(
    tmp_path: Path, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    tables = {
        "one": moved(tmp_path / "one", Form.ONE_PROGRAM, s3_endpoint),
        "events": moved(tmp_path / "events", Form.PENGUIN, s3_endpoint),
    }
    for table in tables.values():
        table.land("9-new", 3, 4)
        table.land("1-late", 3, 4)
        table.land("1-new-day", 8, 4)
        table.store.put("raw/date=2026-01-08/denied.ndjson.gz", gzip.compress(b'{"id": "denied"}\n'))
    config = tmp_path / "pipelines.yaml"
    config.write_text(json.dumps({"pipelines": {name: table.pipeline() for name, table in tables.items()}}))
    options = ["--config", str(config), "--jars", str(JARS), "--sweep", "--once"]
    conf = SHORT_JOB | {"spark.sql.shuffle.partitions": "2"}
    words = ["spark_job.main", *options, *conf_options(conf)]
    proxy = EchoingS3(s3_endpoint, once=False)
    with (
        serving(proxy),
        ChildProcess(words, {**ENVIRONMENT, "AWS_ENDPOINT_URL": proxy.endpoint}, tmp_path / "job.log") as job,
    ):
        until(lambda: job.exit_status is not None, 180)
        assert job.exit_status == 0, (tmp_path / "job.log").read_text()[-3000:]
    log = (tmp_path / "job.log").read_text()
    events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert sorted(e["source"] for e in events if e["event"] == "state_taken_over") == ["events:landing", "one:landing"]
    assert proxy.refused["AccessDenied"] >= 2
    for table in tables.values():
        assert table.found() == Counter(table.older_table.expected())
        kept = dict(table.kept())
        assert any("/dead_letters/denied" in key or "denied" in key.split("/")[-2] for key in kept)
        assert [key for key, body in kept.items() if any(secret.encode() in body for secret in SECRETS)] == []
    assert [secret for secret in SECRETS if secret in log] == []
