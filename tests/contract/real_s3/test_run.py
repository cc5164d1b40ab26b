"""`blizzard run --once` from an S3 server to a table on it."""

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.environment import variables
from infra.local.processes.checkout import CHECKOUT
from tests.fixtures_versitygw import S3Server

ODD_FILES = ("a+b c.ndjson.gz", "50%25 =é🎉#.ndjson.gz", "tail..ndjson.gz", "x" * 240 + ".ndjson.gz")
COMMAND = "import sys; from blizzard.cli import main; sys.exit(main())"
RECORDS, RACED_FILES, RACES = 5, 24, 5


class World:
    """One pipeline of a bucket: what lies in `raw/` goes into `table/`."""

    def __init__(self, server: S3Server, bucket: str, folder: Path) -> None:
        self.server, self.bucket = server, bucket
        self.config = folder / "pipelines.yaml"

    def write_config(self, **settings: Any) -> None:
        source = {"uri": f"s3://{self.bucket}/raw", "schema": "id STRING NOT NULL", "settle_delay_secs": 0, **settings}
        pipeline = {"table_uri": f"s3://{self.bucket}/table", "sources": {"landing": source}}
        self.config.write_text(json.dumps({"pipelines": {"events": pipeline}}))

    def land(self, *paths: str) -> Counter[str]:
        """A file of RECORDS records at each path. Returns their ids."""
        client, landed = self.server.client(), Counter[str]()
        for path in paths:
            ids = [f"{path}:{number}" for number in range(RECORDS)]
            body = "".join(json.dumps({"id": each}) + "\n" for each in ids).encode()
            client.put_object(Bucket=self.bucket, Key=f"raw/{path}", Body=gzip.compress(body))
            landed.update(ids)
        return landed

    def start(self, *options: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", COMMAND, "run", "--once", str(self.config), *options]
        environ = {**variables(), **self.server.environment()}
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, env=environ, cwd=CHECKOUT, text=True, **pipe)

    def rows(self) -> Counter[str]:
        options = {**self.server.environment(), "AWS_ALLOW_HTTP": "true"}
        table = DeltaTable(f"s3://{self.bucket}/table", storage_options=options)
        return Counter(table.to_pyarrow_table(columns=["id"])["id"].to_pylist())


def finish(run: "subprocess.Popen[str]") -> str:
    said, _ = run.communicate(timeout=300)
    assert run.returncode == 0, said[-3000:]
    return said


@pytest.fixture
def world(versitygw: S3Server, tmp_path: Path, request: pytest.FixtureRequest) -> World:
    bucket = f"run-{abs(hash(request.node.name)):x}"
    return World(versitygw, versitygw.new_bucket(bucket, versioned=True), tmp_path)


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_every_record_is_one_row_also_of_files_with_odd_names(world: World, engine: str) -> None:
    world.write_config()
    landed = world.land("date=2026-11-25/plain.ndjson.gz", *ODD_FILES)
    finish(world.start("--engine", engine))
    assert world.rows() == landed
    landed += world.land("z-later.ndjson.gz")
    if engine == "local":
        finish(world.start("--engine", engine))
        assert world.rows() == landed


def test_two_runs_at_once_ingest_each_record_once(world: World) -> None:
    world.write_config(checkpoint={"interval_files": 2})
    landed = Counter[str]()
    for number in range(RACES):
        landed += world.land(*(f"{number}/{file:02}.ndjson.gz" for file in range(RACED_FILES)))
        runs = [world.start("--engine", "local"), world.start("--engine", "local")]
        said = [finish(run) for run in runs]
        assert world.rows() == landed, said
        if any("race lost" in each for each in said):
            return
    pytest.fail(f"no run lost a commit to the other in {RACES} races: they were none")
