"""A probe in a real Spark, on an S3 that is as it should be, and on others."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.s3_stand_in import CREDENTIALS
from benchmarks.s3_stand_in.answers import Request
from blizzard.doctor.aws.probe_line import Problem, line_problems
from spark_job.probe.main import run_probe
from tests.spark.s3_lake import BUCKET, S3Lake, s3_lake

pytestmark = pytest.mark.spark

CONFIG = {
    "pipelines": {
        "events": {
            "table_uri": f"s3://{BUCKET}/lake/events",
            "sources": {"landing": {"uri": f"s3://{BUCKET}/landing/", "schema": "id STRING"}},
        }
    }
}
STATE = "lake/events/_blizzard/events_landing/pending/00000000000000000000.json"
NUMBERED = "/pending/"


@pytest.fixture
def lake(tmp_path: Path, spark: Callable[[], SparkSession], monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Lake]:
    """With a configuration, a file that landed, and state."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_lake(tmp_path, spark()) as lake:
        for key, body in {"config.json": json.dumps(CONFIG), "landing/a.ndjson": "{}\n", STATE: "state"}.items():
            lake.bucket.put(key, body.encode(), {}, create=True)
        lake.refuses = overwrites_a_number
        yield lake


def overwrites_a_number(request: Request) -> bool:
    """What the policy of the lake bucket denies."""
    return request.method == "PUT" and NUMBERED in request.target and "if-none-match" not in request.headers


def probed(lake: S3Lake, spark: Callable[[], SparkSession]) -> dict[str, Any]:
    lines: list[dict[str, Any]] = []

    def log(event: str, /, **fields: object) -> None:
        lines.append({"event": event, **fields})

    before = {key: found.etag for key, found in lake.bucket.objects.items()}
    environ = {"AWS_ENDPOINT_URL": lake.endpoint, "AWS_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": "1"}
    run_probe(f"s3://{BUCKET}/config.json", "abc", spark, environ, log)
    assert {key: found.etag for key, found in lake.bucket.objects.items()} == before
    (line,) = lines
    found: dict[str, Any] = json.loads(json.dumps(line))
    return found


def in_storage(line: dict[str, Any]) -> list[Problem]:
    """The Python and the packages of this machine are not those of EMR's image."""
    return line_problems({**line, "driver": None, "executor": None})


def test_where_all_is_well_the_probe_finds_no_problem_and_leaves_nothing(
    lake: S3Lake, spark: Callable[[], SparkSession]
) -> None:
    line = probed(lake, spark)
    assert in_storage(line) == []
    assert line["failed"] == {}
    assert line["rights"] == {"tried": 10, "denied": []}
    assert line["executor"]["python"] == line["driver"]["python"]
    assert line["executor"]["missing"] == {}
    assert line["jvm"]["spark"] == spark().version
    assert all(len(jars) == 1 for jars in line["jars"].values())
    assert line["log_store"] == {"s3": "io.github.blizzard.logstore.ConditionalS3LogStore"}


def test_an_s3_that_ignores_conditions_is_found_out_by_python_and_by_delta(
    lake: S3Lake, spark: Callable[[], SparkSession]
) -> None:
    def unconditional(request: Request) -> Request:
        headers = {name: value for name, value in request.headers.items() if name != "if-none-match"}
        return replace(request, headers=headers)

    lake.reads, lake.refuses = unconditional, lambda request: False
    line = probed(lake, spark)
    written = line["written"]
    assert (written["second_put_refused"], written["second_commit_refused"]) == (False, False)
    assert written["winners_of_race"] > 1
    assert written["numbers_fenced"] is False
    assert [problem.check for problem in in_storage(line)] == ["written"] * 4


def test_a_denied_right_is_named_and_hides_no_other_finding(lake: S3Lake, spark: Callable[[], SparkSession]) -> None:
    lake.refuses = lambda request: (
        overwrites_a_number(request) or (request.method == "GET" and request.target.startswith(f"/{BUCKET}/landing/a"))
    )
    line = probed(lake, spark)
    (denied,) = line["rights"]["denied"]
    assert (denied["action"], denied["resource"]) == ("s3:GetObject", f"s3://{BUCKET}/landing/*")
    assert "403" in denied["error"]
    assert [problem.check for problem in in_storage(line)] == ["rights"]
    assert line["written"]["second_commit_refused"] is True


def test_an_upload_in_parts_is_tried_too(lake: S3Lake, spark: Callable[[], SparkSession]) -> None:
    lake.refuses = lambda request: (
        overwrites_a_number(request) or (request.method == "DELETE" and "uploadId" in request.target)
    )
    (denied,) = probed(lake, spark)["rights"]["denied"]
    assert denied["action"] == "s3:AbortMultipartUpload"
    lake.refuses = lambda request: overwrites_a_number(request) or "uploads" in request.target
    (denied,) = probed(lake, spark)["rights"]["denied"]
    assert (denied["action"], denied["resource"]) == ("s3:PutObject", f"s3://{BUCKET}/lake/events/*")
