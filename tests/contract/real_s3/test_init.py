"""`blizzard init` of a bucket on an S3 server, and the run of what it wrote."""

import gzip
import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard.cli import main
from tests.fixtures_versitygw import S3Server

pytestmark = pytest.mark.usefixtures("signals_as_before")


def test_a_bucket_is_looked_at_and_its_configuration_ingests_it(
    versitygw: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in versitygw.environment().items():
        monkeypatch.setenv(name, value)
    client, bucket = versitygw.client(), "looked-at"
    client.create_bucket(Bucket=bucket)
    for day in range(1, 4):
        body = gzip.compress(json.dumps({"id": day, "city": "Köln"}).encode())
        client.put_object(Bucket=bucket, Key=f"raw data/day=2026-11-0{day}/a+b.ndjson.gz", Body=body)
    assert main(["init", f"s3://{bucket}/raw data/", "--table-uri", f"s3://{bucket}/lake/t"]) == 0, capfd.readouterr()
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0, capfd.readouterr()
    options = {**versitygw.environment(), "AWS_ALLOW_HTTP": "true"}
    rows = DeltaTable(f"s3://{bucket}/lake/t", storage_options=options).to_pyarrow_table()
    assert sorted(zip(rows["id"].to_pylist(), map(str, rows["day"].to_pylist()), strict=True)) == [
        (day, f"2026-11-0{day}") for day in range(1, 4)
    ]


def test_a_bucket_that_does_not_exist_is_said(
    versitygw: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in versitygw.environment().items():
        monkeypatch.setenv(name, value)
    assert main(["init", "s3://no-such-bucket-here/", "--table-uri", "s3://lake/t"]) == 2
    assert "there is no such bucket or folder" in capfd.readouterr().err
