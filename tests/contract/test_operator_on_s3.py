"""The operator's commands that only read, over S3: they find what they find on a local disk, and write nothing."""

import gzip
import json
import threading
import uuid
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from blizzard.cli import audit as audit_command
from blizzard.cli import main
from blizzard.config.load import load_config
from blizzard.environment import variables
from blizzard.log import silent
from blizzard.processes import ReadingProcesses
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from blizzard.table.own_process import in_own_process
from blizzard.table.storage_options import storage_options
from spark_job.engines.local.engine import LocalEngine
from spark_job.main import run_once
from spark_job.wiring import source_job
from tests.fixtures_s3 import BUCKET

ODD = "a//b %25 é+.ndjson.gz"


class World:
    """A source and a table on S3. One file with an odd name, one that is torn, and one whose event was lost."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self.root = f"operator-{uuid.uuid4().hex[:8]}"
        self.client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        source = {
            "uri": f"s3://{BUCKET}/{self.root}/raw/",
            "schema": "id STRING",
            "settle_delay_secs": 0,
            "sweep": {"late_overlap_secs": 0},
            "partition_filter": {"prefix_template": "date=%Y", "lookback": 1},
        }
        pipeline = {"table_uri": f"s3://{BUCKET}/{self.root}/table", "sources": {"shop": source}}
        self.config = folder / "pipelines.yaml"
        self.config.write_text(json.dumps({"pipelines": {"orders": pipeline}}))
        self.put(f"date=2200/{ODD}", gzip.compress(b'{"id": "a"}\n{"id": "b"}\n'))
        self.put("date=2200/torn.gz", b"\x1f\x8b")
        self.run()
        self.put("date=2020/late.ndjson", b'{"id": "late"}\n')

    def put(self, path: str, body: bytes) -> None:
        self.client.put_object(Bucket=BUCKET, Key=f"{self.root}/raw/{path}", Body=body)

    def run(self, *, sweep: bool = True) -> None:
        s3 = S3Settings.from_environment(variables())
        engine = LocalEngine(s3, partial(storage_options, s3), silent, cores=1)
        jobs = [
            source_job(pipeline, source, engine=engine, s3=s3, log=silent)
            for pipeline, source in load_config(self.config, variables()).sources()
        ]
        assert run_once(jobs, sweep, silent, threading.Event()) == 0

    def objects(self) -> Mapping[str, str]:
        page = self.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{self.root}/")
        return {each["Key"]: each["ETag"] for each in page["Contents"]}


@pytest.fixture
def world(s3_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    return World(s3_endpoint, tmp_path)


@pytest.fixture
def read_only(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A store that refuses every write, in this one process."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a command that only reads has written")

    for name in ("put", "create", "writer", "delete"):
        monkeypatch.setattr(S3Store, name, refuse)
    monkeypatch.setattr(audit_command, "ReadingProcesses", lambda count: ReadingProcesses(1))
    return world


def answer(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> Any:
    assert main([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_commands_that_only_read_write_nothing(read_only: World, capsys: pytest.CaptureFixture[str]) -> None:
    config, before = str(read_only.config), read_only.objects()
    (report,) = answer(capsys, 1, "audit", config)
    assert (report["objects"], report["committed"], report["dead_lettered"], report["missing"]) == (3, 1, 1, 1)
    assert (report["rows"]["found"], report["rows"]["problem"], report["notices"]) == (2, None, [])
    lives = {life["path"]: life for life in answer(capsys, 0, "files", config)}
    assert {path: life["state"] for path, life in lives.items()} == {
        "date=2020/late.ndjson": "missing",
        f"date=2200/{ODD}": "committed",
        "date=2200/torn.gz": "dead_lettered",
    }
    assert (lives[f"date=2200/{ODD}"]["rows"], lives[f"date=2200/{ODD}"]["table_version"]) == (2, 0)
    (letters,) = answer(capsys, 0, "letters", config, "--details")
    assert [letter["path"] for letter in letters["letters"]] == ["date=2200/torn.gz"]
    read_only.client.put_object(Bucket=BUCKET, Key=f"{read_only.root}/raw/date=2200/z.ndjson", Body=b"{}" * 500)
    (plan,) = answer(capsys, 0, "plan", config)
    assert (plan["sources"][0]["files"], plan["sources"][0]["bytes"], plan["dollars"] > 0) == (1, 1_000, True)
    read_only.client.delete_object(Bucket=BUCKET, Key=f"{read_only.root}/raw/date=2200/z.ndjson")
    assert read_only.objects() == before


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("doctor",),
        ("schema-history",),
        ("validate", "--against-table"),
        ("rebuild", "--yes"),
        ("replay", "--dry-run"),
        ("replace", "--path", "date=2200/*", "--dry-run", "--engine", "auto"),
    ],
    ids=" ".join,
)
def test_what_other_commands_look_at_stays_as_it_is(world: World, words: tuple[str, ...]) -> None:
    """Some work in processes of their own. Nothing is lost, so there is nothing to rebuild."""
    before = world.objects()
    command, *options = words
    is_worth_a_look = command == "doctor"  # a dead letter
    assert main([command, str(world.config), *options]) == int(is_worth_a_look)
    assert world.objects() == before


def test_an_audit_with_several_processes_a_sample_and_a_repair(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(world.config)
    (report,) = answer(capsys, 1, "audit", config, "--sample", "5", "--repair")
    assert (report["repaired"], report["sample"]["rows"], report["sample"]["differ"]) == (1, 2, [])
    world.run(sweep=False)
    (report,) = answer(capsys, 0, "audit", config)
    assert (report["committed"], report["missing"], report["verdict"]) == (2, 0, "good")


def test_data_files_that_are_lost_and_rows_of_a_source_that_nobody_knows(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    config, options = str(world.config), dict(storage_options(S3Settings.from_environment(variables())))
    table = f"s3://{BUCKET}/{world.root}/table"
    rows = DeltaTable(table, storage_options=options).to_pyarrow_table()
    forged = [{**row, "_source": {**row["_source"], "source": "orders:nobody"}} for row in rows.to_pylist()]
    write_deltalake(table, pa.Table.from_pylist(forged, rows.schema), mode="append", storage_options=options)
    (report,) = answer(capsys, 1, "audit", config)
    (other,) = report["others"]
    assert (other["source"], other["rows"], other["committed"]) == ("orders:nobody", len(forged), False)
    lives = {life["path"]: life for life in answer(capsys, 0, "files", config)}
    assert lives[f"date=2200/{ODD}"]["rows_found"] == 2
    damaged, lost = sorted(key for key in world.objects() if key.endswith(".parquet") and "/_blizzard/" not in key)
    world.client.delete_object(Bucket=BUCKET, Key=lost)
    world.client.put_object(Bucket=BUCKET, Key=damaged, Body=b"PAR1")
    (report,) = answer(capsys, 1, "audit", config)
    assert [each["path"].rpartition("/")[2] for each in report["names"]["data_files_lost"]] == [
        key.rpartition("/")[2] for key in (damaged, lost)
    ]
    assert (report["rows"]["found"], report["rows"]["unexplained"]) == (0, 2)
    world.client.delete_object(Bucket=BUCKET, Key=damaged)
    in_own_process(_take_out, table, options)
    (report,) = answer(capsys, 1, "audit", config)
    assert (report["names"]["data_files_lost"], len(report["names"]["rows_deleted"])) == ([], 1)


def _take_out(table: str, options: dict[str, str]) -> None:
    """Of the log, what is lost. In a process of its own: it would not let this one's server answer."""
    DeltaTable(table, storage_options=options).repair()


def test_a_table_without_its_txn_is_rebuilt_and_another_takes_its_place(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    config, options = str(world.config), storage_options(S3Settings.from_environment(variables()))
    table = f"s3://{BUCKET}/{world.root}/table"
    rows = DeltaTable(table, storage_options=dict(options)).to_pyarrow_table()
    for key in world.objects():
        if key.startswith(f"{world.root}/table/") and "/_blizzard/" not in key:
            world.client.delete_object(Bucket=BUCKET, Key=key)
    write_deltalake(table, rows, storage_options=dict(options))
    document = answer(capsys, 0, "rebuild", config, "--yes")
    assert [source["verdict"] for source in document["sources"]] == ["rebuilt"]
    world.run()
    found = rows_of(table, options)
    assert [row["id"] for row in found] == ["a", "b", "late"]
    for at, code in ((table, 1), (f"{table}-2", 0)):
        in_own_process(_forge, at, dict(options))
        document = answer(capsys, code, "rebuild", config, "--to", f"{table}-2", "--swap", "--yes")
        (found,) = document["sources"]
        assert (found["changed"], found["changed_rows"]) == (code, code)
    assert (document["swapped"], document["sources"][0]["rows"], document["sources"][0]["new_rows"]) == (True, 3, 3)
    assert [row["id"] for row in rows_of(f"{table}-2", options)] == ["FORGED", "b", "late"]
    assert json.loads(world.config.read_text())["pipelines"]["orders"]["table_uri"] == f"{table}-2"
    world.run()


def _forge(table: str, options: dict[str, str]) -> None:
    DeltaTable(table, storage_options=options).update(predicate="id = 'a'", updates={"id": "'FORGED'"})


def rows_of(table: str, options: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = DeltaTable(table, storage_options=dict(options)).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["id"])
