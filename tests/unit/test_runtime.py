"""What all functions share. Reloading the configuration has its tests with the collector."""

import json
import socket
import subprocess
import sys
from io import BytesIO, StringIO, TextIOWrapper
from logging import StreamHandler
from pathlib import Path

import pytest
from aws_lambda_powertools.logging import Logger

from benchmarks import cold_start
from blizzard.errors import ConfigError
from blizzard.storage.s3_connection import S3Settings, connection
from functions.runtime import FunctionLog, Runtime, function_logger, make_runtime, warm_up

ROOT = Path(__file__).parents[2]
REGION = {"AWS_REGION": "eu-west-1"}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")


def runtime(**environ: str) -> Runtime:
    return make_runtime({**REGION, **environ}, FunctionLog(Logger(service="test-runtime")))


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(ConfigError, match="BLIZZARD_CONFIG: expected a value"):
        runtime().reloading_config(lambda published: published)
    with pytest.raises(ConfigError, match="BLIZZARD_WAKE_WINDOW_SECS: expected a value"):
        runtime(BLIZZARD_WAKE_QUEUE_URL="https://sqs.example/queue.fifo").waker()


@pytest.mark.parametrize("window", ["0", "-1", "901", "soon", "nan"])
def test_a_wake_window_outside_the_queues_limits_is_refused(window: str) -> None:
    settings = {"BLIZZARD_WAKE_QUEUE_URL": "https://sqs.example/queue.fifo", "BLIZZARD_WAKE_WINDOW_SECS": window}
    with pytest.raises(ConfigError, match="expected a number of seconds, above 0 and at most 900"):
        runtime(**settings).waker()


COUNTING = {
    "collector": "handler.publish_counts(handler.metrics, {'A': 1})",
    "sweeper": "handler.publish_counts(handler.metrics, {'A': 1})",
    "dispatcher": "handler._report(handler.DispatchResult('p'))",
}


@pytest.mark.parametrize("function", COUNTING)
@pytest.mark.parametrize(
    ("given", "expected"), [("Blizzard/test", "Blizzard/test"), ("", "Blizzard"), (None, "Blizzard")]
)
def test_metrics_are_in_the_namespace_of_the_stack(function: str, given: str | None, expected: str) -> None:
    environ = {} if given is None else {"POWERTOOLS_METRICS_NAMESPACE": given}
    done = subprocess.run(
        [sys.executable, "-c", f"from functions.{function} import handler\n{COUNTING[function]}"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    [emitted] = [line["_aws"]["CloudWatchMetrics"] for line in printed if "_aws" in line]
    assert [metrics["Namespace"] for metrics in emitted] == [expected]


def test_without_a_wake_queue_no_wake_is_sent_and_nothing_fails() -> None:
    assert runtime().waker().wake(["events"], now_ts=0.0) == 0


def test_clients_use_tls_and_share_one_session() -> None:
    one = runtime()
    assert one.client("sqs").meta.endpoint_url == "https://sqs.eu-west-1.amazonaws.com"
    assert connection(one.settings).client.meta.endpoint_url == "https://s3.eu-west-1.amazonaws.com"


def test_an_endpoint_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:5000")
    assert runtime(AWS_ENDPOINT_URL="http://127.0.0.1:5000").client("sqs").meta.endpoint_url == "http://127.0.0.1:5000"


def test_an_unreachable_queue_is_a_failed_wake_and_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    settings = {"BLIZZARD_WAKE_QUEUE_URL": f"{endpoint}/1/wake.fifo", "BLIZZARD_WAKE_WINDOW_SECS": "15"}
    output = StringIO()
    log = FunctionLog(Logger(service="test-unreachable", logger_handler=StreamHandler(output)))
    waker = make_runtime({**REGION, "AWS_ENDPOINT_URL": endpoint, **settings}, log).waker()
    assert waker.wake(["events"], now_ts=0.0) == 1
    assert '"wake_failed"' in output.getvalue()
    assert "EndpointConnectionError" in output.getvalue()


def test_no_value_makes_a_log_line_disappear() -> None:
    output = TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True)
    log = FunctionLog(function_logger("test-lines", StreamHandler(output)))
    taken = {"name": "a name", "message": "a message", "level": "a level", "service": "a service"}
    log.info("event_ignored", detail="a\ud800\n{}", error=ValueError("é"), **taken)
    output.seek(0)
    (line,) = output.read().splitlines()
    logged = json.loads(line)
    assert logged["message"] == "event_ignored"
    assert logged["detail"] == "a\ud800\n{}"
    assert {name: logged[f"{name}_"] for name in taken} == taken
    assert (logged["level"], logged["service"], logged["error"]) == ("INFO", "test-lines", "é")


@pytest.mark.parametrize("level", ["info", "warning", "error"])
def test_the_location_of_a_line_is_that_of_the_caller(level: str) -> None:
    output = StringIO()
    getattr(FunctionLog(function_logger(f"test-location-{level}", StreamHandler(output))), level)("event")
    assert json.loads(output.getvalue())["location"].startswith("test_the_location_of_a_line_is_that_of_the_caller:")


def test_the_first_client_is_created_only_during_lambdas_initialization() -> None:
    region = {"AWS_REGION": "ap-southeast-4"}  # no other test's
    settings = make_runtime(region, FunctionLog(Logger(service="test-runtime"))).settings
    assert isinstance(settings, S3Settings)
    warm_up(region)
    assert connection(settings)._client is None
    warm_up({**region, "AWS_LAMBDA_FUNCTION_NAME": "collector"})
    assert connection(settings)._client is not None


HEAVY = ("pydantic", "ruamel", "obstore", "orjson", "pyarrow", "boto3", "typer", "rich")


@pytest.mark.parametrize("function", ["collector", "dispatcher", "sweeper"])
def test_a_function_imports_no_heavy_package(function: str) -> None:
    code = f"import sys, functions.{function}.handler; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={}, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_cold_start_benchmark_counts_each_import_once() -> None:
    measured = cold_start.measure("functions.collector.handler", runs=1)
    parts = (measured.botocore, measured.powertools, measured.blizzard, measured.rest)
    assert all(part > 0 for part in parts)
    assert sum(parts) == pytest.approx(measured.total)
    assert "collector" in [name.split(".")[1] for name in cold_start.handlers()]
