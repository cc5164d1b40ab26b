"""Checks of buckets, on the local AWS, and the right to write on a server that others wrote."""

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest

from blizzard.doctor.check import Finding, Verdict
from blizzard.doctor.doctor import Examination
from infra.local.processes.server_process import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, LocalAws
from tests.fixtures_versitygw import S3Server
from tests.unit.doctor_world import DAY_SECS, wrong

DENY = {"Sid": "No", "Effect": "Deny", "Principal": "*", "Action": "s3:PutObject"}


class Buckets:
    """A configuration whose source and table are in buckets of a server at `environ`."""

    def __init__(self, folder: Path, environ: dict[str, str], landing: str, lake: str) -> None:
        self.environ = environ
        self.landing, self.lake = landing, lake
        self.file = folder / "pipelines.yaml"
        source = {"uri": f"s3://{landing}/raw/", "schema": "id STRING"}
        pipeline = {"table_uri": f"s3://{lake}/tables/events", "sources": {"shop": source}}
        self.file.write_text(json.dumps({"pipelines": {"orders": pipeline}}))

    def results(self, *, later_secs: float = 0.0) -> dict[str, Finding]:
        clock = lambda: time.time() + later_secs  # noqa: E731
        found = [*Examination(str(self.file), self.environ, clock).results()]
        self.wrong = [each[0] for each in wrong(found)]
        return {each.id: each.finding for each in found}


@pytest.fixture(autouse=True)
def environment(aws: LocalAws) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in aws.environment().items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def buckets(aws: LocalAws, tmp_path: Path) -> Buckets:
    name = f"d{uuid.uuid4().hex[:12]}"
    found = Buckets(tmp_path, aws.environment(), f"{name}-landing", f"{name}-lake")
    for each in (found.landing, found.lake):
        aws.client("s3").create_bucket(Bucket=each, CreateBucketConfiguration={"LocationConstraint": REGION})
    return found


def put(aws: LocalAws, bucket: str, key: str, **fields: Any) -> None:
    aws.client("s3").put_object(Bucket=bucket, Key=key, Body=b"{}\n", **fields)


def test_buckets_that_may_be_used_are_well(aws: LocalAws, buckets: Buckets) -> None:
    put(aws, buckets.landing, "raw/1.ndjson")
    found = buckets.results()
    assert buckets.wrong == []
    for name in (
        "credentials",
        "region",
        "clock",
        "source-list",
        "source-read",
        "pattern",
        "table-read",
        "table-write",
    ):
        assert found[f"storage.{name}"].verdict is Verdict.OK, name
    assert [*aws.client("s3").list_objects_v2(Bucket=buckets.lake).get("Contents", ())] == []


def test_a_missing_bucket_is_found(aws: LocalAws, buckets: Buckets) -> None:
    aws.client("s3").delete_bucket(Bucket=buckets.landing)
    assert "there is no such bucket" in buckets.results()["storage.source-list"].found
    assert buckets.wrong == ["storage.clock", "storage.source-list"]


def test_an_object_that_cannot_be_read_is_found(aws: LocalAws, buckets: Buckets) -> None:
    put(aws, buckets.landing, "raw/1.ndjson", StorageClass="GLACIER")
    found = buckets.results()["storage.source-read"]
    assert (found.verdict, "archived" in found.found) == (Verdict.PROBLEM, True), found
    assert buckets.wrong == ["storage.source-read"]


def test_a_bucket_in_another_region_is_found(aws: LocalAws, buckets: Buckets) -> None:
    keys = {"aws_access_key_id": ACCESS_KEY_ID, "aws_secret_access_key": SECRET_ACCESS_KEY}
    far = boto3.client("s3", region_name="us-west-2", endpoint_url=aws.endpoint, **keys)
    aws.client("s3").delete_bucket(Bucket=buckets.landing)
    far.create_bucket(Bucket=buckets.landing, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    results = [*Examination(str(buckets.file), buckets.environ, time.time).results()]
    found = {each.subject: each.finding for each in results if each.id == "storage.region"}
    assert found[f"s3://{buckets.lake}"].verdict is Verdict.OK
    assert found[f"s3://{buckets.landing}"].advice == "set AWS_REGION=us-west-2"


@pytest.mark.parametrize(
    ("later_secs", "verdict"),
    [(3.0, Verdict.OK), (30.0, Verdict.WARNING), (-30.0, Verdict.WARNING), (90.0, Verdict.PROBLEM)],
)
def test_a_clock_that_is_not_s3s_is_found(buckets: Buckets, later_secs: float, verdict: Verdict) -> None:
    assert buckets.results(later_secs=later_secs)["storage.clock"].verdict is verdict


def test_no_credentials_are_found(buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    # Clients are shared by those with the same settings: these are others.
    found = Examination(str(buckets.file), {**buckets.environ, "AWS_REGION": "eu-west-3"}, time.time).results()
    by_id = {each.id: each.finding for each in found}
    assert (by_id["storage.credentials"].found, by_id["storage.clock"].verdict) == ("no credentials", Verdict.SKIPPED)


def test_a_right_to_write_that_a_policy_denies_is_found(aws: LocalAws, buckets: Buckets) -> None:
    policy = {"Version": "2012-10-17", "Statement": [{**DENY, "Resource": f"arn:aws:s3:::{buckets.lake}/*"}]}
    aws.client("s3").put_bucket_policy(Bucket=buckets.lake, Policy=json.dumps(policy))
    found = buckets.results()["storage.table-write"]
    assert (found.verdict, "Allow s3:PutObject" in found.found) == (Verdict.PROBLEM, True), found
    assert buckets.wrong == ["storage.table-write"]


# --- On a server that others wrote ---


@pytest.fixture
def there(versitygw: S3Server, tmp_path: Path) -> Iterator[Buckets]:
    name = f"d{uuid.uuid4().hex[:12]}"
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in versitygw.environment().items():
            patch.setenv(variable, value)
        landing, lake = (versitygw.new_bucket(f"{name}-{each}") for each in ("landing", "lake"))
        yield Buckets(tmp_path, versitygw.environment(), landing, lake)


def test_a_right_to_write_is_tried_without_a_trace(versitygw: S3Server, there: Buckets) -> None:
    assert there.results()["storage.table-write"].verdict is Verdict.OK
    assert there.wrong == []
    assert [*(versitygw.folder / there.lake).rglob("*")] == []


def test_an_upload_that_never_ended_is_found(versitygw: S3Server, there: Buckets) -> None:
    s3 = versitygw.client()
    s3.create_multipart_upload(Bucket=there.lake, Key="elsewhere/x")
    assert there.results()["state.uploads"].found == "0 are in progress"
    s3.create_multipart_upload(Bucket=there.lake, Key="tables/events/part-0.parquet")
    assert there.results()["state.uploads"].found == "1 are in progress"
    found = there.results(later_secs=9 * DAY_SECS)["state.uploads"]
    assert (found.verdict, "tables/events/part-0.parquet" in found.found) == (Verdict.WARNING, True), found
