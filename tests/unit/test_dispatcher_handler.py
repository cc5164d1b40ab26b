"""The dispatcher function with a published configuration, tables on disk, and a fake of EMR Serverless by its model."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import StringIO
from logging import StreamHandler
from pathlib import Path
from typing import Any, cast

import pytest

from blizzard.config.load import parse_config
from blizzard.config.publish import to_published
from blizzard.errors import ConfigError
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.storage.local import LocalStore
from functions import runtime
from functions.dispatcher import composition
from functions.dispatcher import handler as function
from functions.dispatcher.composition import RESERVE_SECS, first_of_round
from functions.dispatcher.handler import DispatchFailed
from functions.dispatcher.triggers import (
    UnknownEvent,
)
from tests.unit.dispatcher_events import sample, wakes
from tests.unit.emr_client import ENVIRONMENT, FakeEmrClient, client_error

ROOT = Path(__file__).parents[2]

CONFIG = """
pipelines:
  events:
    table_uri: {lake}/events
    sources:
      landing: {{uri: s3://landing/raw-events/, schema: "id STRING"}}
  clicks:
    table_uri: {lake}/clicks
    sources:
      web: {{uri: s3://landing/clicks/, schema: "id STRING"}}
"""


@dataclass
class FakeContext:
    """What Lambda tells a function about its call."""

    aws_request_id: str = "request-1"
    function_name: str = "dispatcher"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:eu-west-1:111122223333:function:dispatcher"
    remaining_secs: Callable[[], float] = lambda: 60.0

    def get_remaining_time_in_millis(self) -> int:
        return int(self.remaining_secs() * 1000)


@dataclass
class Deployed:
    """The function with its environment, a lake on disk, its log, and the service that it calls."""

    lake: Path
    log: StringIO
    emr: FakeEmrClient = field(default_factory=FakeEmrClient)

    remaining_secs: float = 60.0

    def invoke(self, event: Any) -> Any:
        return function.handler(event, cast("Any", FakeContext(remaining_secs=lambda: self.remaining_secs)))

    def slow(self, pipeline: str) -> None:
        """After a call to the service for this pipeline, hardly any time is left."""

        def hook(operation: str, parameters: dict[str, Any]) -> None:
            if parameters.get("name") == f"blizzard-{pipeline}":
                self.remaining_secs = RESERVE_SECS - 1

        self.emr.hook = hook

    def land(self, pipeline: str, source: str, name: str = "a") -> None:
        store = LocalStore(str(self.lake / pipeline), may_be_missing=True)
        manifest = Manifest(store, f"_blizzard/{pipeline}_{source}", f"{pipeline}:{source}")
        manifest.append([Entry(name, 1, f"etag-{name}", 1.0)], writer_id=name, now_ts=1_700_000_000.0)

    def started(self) -> list[str]:
        return [call["name"] for operation, call in self.emr.calls if operation == "StartJobRun"]

    def logged(self, event: str) -> list[Any]:
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["message"] == event]


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    config = to_published(parse_config(CONFIG.format(lake=tmp_path / "lake"), {}))
    world = Deployed(tmp_path / "lake", StringIO())
    for name, value in {**ENVIRONMENT, "POWERTOOLS_SERVICE_NAME": "dispatcher"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(runtime, "read_text", lambda uri, settings: config)
    monkeypatch.setattr(runtime.Runtime, "client", lambda self, service, **_: world.emr)
    monkeypatch.setattr(composition, "first_of_round", lambda now_ts, count: 0)
    function.dispatch.cache_clear()
    output = cast("StreamHandler[Any]", function.logger.registered_handler)
    before = output.setStream(world.log)
    yield world
    output.setStream(before)
    function.dispatch.cache_clear()


def test_a_wake_starts_a_run_of_its_pipeline_and_of_no_other(deployed: Deployed) -> None:
    deployed.land("events", "landing")
    deployed.land("clicks", "web")
    assert deployed.invoke(sample("wake")) == {"batchItemFailures": []}
    assert deployed.started() == ["blizzard-events"]


def test_many_wakes_of_one_pipeline_are_one_dispatch(deployed: Deployed) -> None:
    deployed.land("events", "landing")
    deployed.invoke(wakes("events", "events", "events"))
    assert len(deployed.logged("dispatched")) == 1


def test_only_the_wakes_of_a_failed_pipeline_stay_in_the_queue(deployed: Deployed) -> None:
    deployed.land("events", "landing")
    (deployed.lake / "clicks").write_text("a file where the table's folder should be")
    answer = deployed.invoke(wakes("clicks", "events", "clicks"))
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m0"}, {"itemIdentifier": "m2"}]}
    assert deployed.started() == ["blizzard-events"]


def test_a_throttled_start_leaves_its_wake_in_the_queue(deployed: Deployed) -> None:
    deployed.land("events", "landing")
    deployed.emr.errors["StartJobRun"] = client_error("StartJobRun", "ThrottlingException")
    assert deployed.invoke(wakes("events")) == {"batchItemFailures": [{"itemIdentifier": "m0"}]}
    deployed.emr.errors.clear()
    assert deployed.invoke(wakes("events")) == {"batchItemFailures": []}
    assert len(deployed.emr.runs) == 1


def test_a_wake_of_a_removed_pipeline_is_logged_and_deleted(deployed: Deployed) -> None:
    assert deployed.invoke(wakes("gone")) == {"batchItemFailures": []}
    assert [line["pipeline"] for line in deployed.logged("pipeline_unknown")] == ["gone"]


def test_a_message_that_is_not_a_wake_is_reported_as_failed(deployed: Deployed) -> None:
    event = wakes("events")
    event["Records"][0]["body"] = "hello"
    assert deployed.invoke(event) == {"batchItemFailures": [{"itemIdentifier": "m0"}]}
    assert [line["message_id"] for line in deployed.logged("message_bad")] == ["m0"]


def test_the_end_of_a_run_starts_the_next_run_of_its_pipeline(deployed: Deployed) -> None:
    deployed.land("events", "landing")
    deployed.invoke(sample("schedule_dispatch"))
    [run] = deployed.emr.runs.values()
    run["state"] = "CANCELLED"
    assert deployed.invoke(sample("emr_job_state")) == {}
    assert deployed.logged("run_failed")[0]["reason"] == "CANCELLED"
    assert len(deployed.emr.runs) == 1, "there is a wait first"


def test_a_run_is_started_only_if_the_service_reports_none_active(deployed: Deployed) -> None:
    deployed.land("events", "landing")
    deployed.invoke(sample("schedule_dispatch"))
    deployed.invoke(sample("emr_job_state"))
    assert deployed.started() == ["blizzard-events"]
    assert not deployed.logged("run_succeeded")


@pytest.mark.parametrize("name", ["nightly-report", "blizzard-gone"])
def test_a_run_of_another_owner_is_ignored(name: str, deployed: Deployed) -> None:
    event = sample("emr_job_state")
    event["detail"]["jobRunName"] = name
    assert deployed.invoke(event) == {}
    assert [line["run"] for line in deployed.logged("run_ignored")] == [name]
    assert not deployed.logged("dispatched")


def test_the_schedule_dispatches_every_pipeline(deployed: Deployed) -> None:
    deployed.land("events", "landing")
    deployed.land("clicks", "web")
    assert deployed.invoke(sample("schedule_dispatch")) == {}
    assert deployed.started() == ["blizzard-events", "blizzard-clicks"]


def test_a_failing_pipeline_does_not_stop_the_others_and_the_invocation_fails(deployed: Deployed) -> None:
    deployed.land("clicks", "web")
    deployed.lake.mkdir(exist_ok=True)
    (deployed.lake / "events").write_text("a file where the table's folder should be")
    with pytest.raises(DispatchFailed, match=r"^events: "):
        deployed.invoke(sample("schedule_dispatch"))
    assert deployed.started() == ["blizzard-clicks"]
    assert [line["pipeline"] for line in deployed.logged("dispatch_failed")] == ["events"]


# --- Many pipelines in one invocation ---


def test_wakes_without_time_left_stay_in_the_queue(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    deployed.land("events", "landing")
    deployed.land("clicks", "web")
    deployed.slow("events")
    answer = deployed.invoke(wakes("events", "clicks", "clicks"))
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m1"}, {"itemIdentifier": "m2"}]}
    assert deployed.started() == ["blizzard-events"]
    assert [line["pipelines"] for line in deployed.logged("dispatch_put_off")] == [["clicks"]]
    assert list(published_metrics(capsys)) == ["events"]


def test_pipelines_without_time_left_are_logged_and_are_not_an_error(deployed: Deployed) -> None:
    deployed.land("events", "landing")
    deployed.slow("events")
    assert deployed.invoke(sample("schedule_dispatch")) == {}
    assert [line["pipelines"] for line in deployed.logged("dispatch_put_off")] == [["clicks"]]


def test_at_least_one_pipeline_is_dispatched_even_without_time_left(deployed: Deployed) -> None:
    deployed.land("events", "landing")
    deployed.remaining_secs = 1.0
    deployed.invoke(sample("schedule_dispatch"))
    assert deployed.started() == ["blizzard-events"]
    assert not deployed.logged("dispatch_put_off")[1:]


class TimeOver(BaseException):
    """Lambda ends the function."""


def test_a_timeout_loses_no_metrics_of_pipelines_before_it(
    deployed: Deployed, capsys: pytest.CaptureFixture[str]
) -> None:
    deployed.land("events", "landing")
    deployed.land("clicks", "web")

    def hook(operation: str, parameters: dict[str, Any]) -> None:
        if parameters.get("name") == "blizzard-clicks":
            raise TimeOver

    deployed.emr.hook = hook
    with pytest.raises(TimeOver):
        deployed.invoke(sample("schedule_dispatch"))
    assert published_metrics(capsys)["events"]["RunsStarted"] == [1.0]


def test_the_first_pipeline_of_the_schedule_depends_on_the_time(
    deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first, expected in [(0, ["events", "clicks"]), (1, ["clicks", "events"])]:
        monkeypatch.setattr(composition, "first_of_round", lambda now_ts, count, first=first: first)
        before = len(deployed.logged("dispatched"))
        deployed.invoke(sample("schedule_dispatch"))
        assert [line["pipeline"] for line in deployed.logged("dispatched")[before:]] == expected


@pytest.mark.parametrize("period_secs", [60, 300, 600, 3600])
@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_each_pipeline_is_first_about_as_often_with_any_period(period_secs: int, count: int) -> None:
    firsts = Counter(first_of_round(1_795_000_000.4 + n * period_secs, count) for n in range(100 * count))
    assert set(firsts) == set(range(count))
    assert min(firsts.values()) > 50
    assert first_of_round(7.0, count) == first_of_round(7.0, count)


def unforeseen(operation: str, parameters: dict[str, Any]) -> None:
    if parameters.get("name") == "blizzard-events":
        raise ZeroDivisionError("a bug")


def test_an_unexpected_error_does_not_stop_other_pipelines(
    deployed: Deployed, capsys: pytest.CaptureFixture[str]
) -> None:
    deployed.land("events", "landing")
    deployed.land("clicks", "web")
    deployed.emr.hook = unforeseen
    with pytest.raises(DispatchFailed, match=r"^events: a bug$"):
        deployed.invoke(sample("schedule_dispatch"))
    assert deployed.started() == ["blizzard-events", "blizzard-clicks"]
    [line] = deployed.logged("dispatch_failed")
    assert (line["pipeline"], line["error_kind"]) == ("events", "ZeroDivisionError")
    assert "in unforeseen" in line["traceback"]
    assert published_metrics(capsys)["clicks"]["RunsStarted"] == [1.0]


def test_an_unexpected_error_leaves_its_wake_in_the_queue(deployed: Deployed) -> None:
    deployed.land("events", "landing")
    deployed.emr.hook = unforeseen
    assert deployed.invoke(wakes("events", "clicks")) == {"batchItemFailures": [{"itemIdentifier": "m0"}]}


# --- Runs without a name ---


def unnamed(run_id: str) -> Any:
    event = sample("emr_job_state")
    del event["detail"]["jobRunName"]
    event["detail"]["jobRunId"] = run_id
    return event


def test_the_pipeline_of_a_run_without_a_name_is_found_by_the_newest_record(deployed: Deployed) -> None:
    deployed.land("clicks", "web")
    deployed.invoke(wakes("clicks"))
    [run_id] = deployed.emr.runs
    (deployed.lake / "events").write_text("a file where the table's folder should be")
    deployed.invoke(unnamed(run_id))
    assert [line["pipeline"] for line in deployed.logged("dispatched")] == ["clicks", "clicks"]


def test_an_unknown_run_without_a_name_dispatches_all_pipelines(deployed: Deployed) -> None:
    deployed.invoke(unnamed("00unknown"))
    assert [line["pipeline"] for line in deployed.logged("dispatched")] == ["events", "clicks"]


def test_an_unknown_event_is_logged_and_raised(deployed: Deployed) -> None:
    with pytest.raises(UnknownEvent):
        deployed.invoke({"hello": "world"})
    assert "hello" in deployed.logged("event_unknown")[0]["error"]


def test_a_wrong_environment_variable_is_named(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BLIZZARD_APPLICATION_ID")
    monkeypatch.setenv("BLIZZARD_MAX_EXECUTORS", "many")
    with pytest.raises(ConfigError, match=r"(?s)BLIZZARD_APPLICATION_ID: .*BLIZZARD_MAX_EXECUTORS: "):
        deployed.invoke(sample("schedule_dispatch"))


def published_metrics(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    return {document["pipeline"]: document for document in documents}


def test_metrics_are_published_by_pipeline_and_in_total(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    deployed.land("events", "landing", "a")
    deployed.land("events", "landing", "b")
    deployed.invoke(sample("schedule_dispatch"))
    published = published_metrics(capsys)
    [metrics] = published["events"]["_aws"]["CloudWatchMetrics"]
    assert metrics["Namespace"] == "Blizzard"
    assert sorted(metrics["Dimensions"]) == [["pipeline"], ["service"]]
    assert published["events"]["service"] == "dispatcher"
    units = {metric["Name"]: metric["Unit"] for metric in metrics["Metrics"]}
    assert units.pop("OldestPendingSeconds") == "Seconds"
    assert set(units.values()) == {"Count"}
    assert published["events"]["OldestPendingSeconds"][0] > 1_000_000
    assert {name: published["events"][name] for name in units} == {
        "BacklogFiles": [2.0],
        "CircuitOpen": [0.0],
        "RunsStarted": [1.0],
        "RunsFailed": [0.0],
    }
    assert published["clicks"]["OldestPendingSeconds"] == published["clicks"]["RunsStarted"] == [0.0]


def test_an_open_circuit_shows_in_the_metrics_each_time(
    deployed: Deployed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLIZZARD_MAX_FAILURES", "1")
    deployed.land("events", "landing")
    deployed.emr.errors["StartJobRun"] = client_error("StartJobRun", "AccessDeniedException", 403)
    for failed in (1.0, 0.0):
        deployed.invoke(wakes("events"))
        published = published_metrics(capsys)["events"]
        assert (published["CircuitOpen"], published["RunsFailed"]) == ([1.0], [failed])
    assert [line["level"] for line in deployed.logged("circuit_open")] == ["ERROR"]


def test_an_unreadable_backlog_has_no_metric(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    deployed.lake.mkdir()
    (deployed.lake / "events").write_text("a file where the table's folder should be")
    deployed.invoke(wakes("events"))
    published = published_metrics(capsys)["events"]
    assert published["RunsStarted"] == [0.0]
    assert {"OldestPendingSeconds", "BacklogFiles"}.isdisjoint(published)


def test_the_function_starts_with_only_the_packages_of_its_bundle() -> None:
    heavy = ["pydantic", "ruamel", "obstore", "orjson", "pyarrow", "typer", "rich", "boto3", "pyspark"]
    code = f"import sys, functions.dispatcher.handler; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env={})
    assert done.stdout == "[]\n"
