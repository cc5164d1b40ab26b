"""The deployed function: each event that wakes it, with a configuration and a table on disk and the service's model."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from logging import StreamHandler
from pathlib import Path
from typing import Any, cast

import pytest

from blizzard.config import parse_config
from blizzard.config.publish import to_published
from blizzard.errors import ConfigError
from blizzard.manifest import Entry, Manifest
from blizzard.storage.local import LocalStore
from functions import runtime
from functions.dispatcher import handler as function
from functions.dispatcher.handler import DispatchFailed
from functions.dispatcher.triggers import (
    EveryPipeline,
    JobStateChanged,
    Trigger,
    UnknownEvent,
    Wakes,
    read_trigger,
)
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


def sample(name: str) -> Any:
    return json.loads((ROOT / "events" / f"{name}.json").read_text())


def wakes(*pipelines: str) -> Any:
    record = sample("wake")["Records"][0]
    return {
        "Records": [
            {**record, "messageId": f"m{n}", "body": json.dumps({"pipeline": name})} for n, name in enumerate(pipelines)
        ]
    }


# --- What an event is about ---


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wake", Wakes({"events": ("00000000-0000-4000-8000-000000000021",)})),
        ("emr_job_state", JobStateChanged("events", "blizzard-events", "SUCCESS")),
        ("schedule_dispatch", EveryPipeline()),
    ],
)
def test_each_sample_says_which_pipelines_it_is_about(name: str, expected: Trigger) -> None:
    assert read_trigger(sample(name)) == expected


def test_a_run_without_a_name_may_be_anybodys() -> None:
    event = sample("emr_job_state")
    del event["detail"]["jobRunName"]
    assert read_trigger(event) == EveryPipeline()


def test_messages_are_gathered_by_pipeline_and_bad_ones_set_apart() -> None:
    event = wakes("events", "clicks", "events")
    event["Records"].append({**event["Records"][0], "messageId": "m3", "body": "hello"})
    found = read_trigger(event)
    assert isinstance(found, Wakes)
    assert found.messages == {"events": ("m0", "m2"), "clicks": ("m1",)}
    assert list(found.bad) == ["m3"]


UNKNOWN = [{}, {"schedule": "sweep"}, {"detail-type": "Object Created", "detail": {}}, {"Records": [{"body": "x"}]}]


@pytest.mark.parametrize("event", UNKNOWN, ids=str)
def test_an_event_of_another_shape_is_an_error_that_shows_it(event: dict[str, Any]) -> None:
    with pytest.raises(UnknownEvent, match=r"expected .*, found"):
        read_trigger(event)


# --- The function ---


@dataclass
class FakeContext:
    """What Lambda tells a function about its call."""

    aws_request_id: str = "request-1"
    function_name: str = "dispatcher"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:eu-west-1:111122223333:function:dispatcher"


@dataclass
class Deployed:
    """The function with its environment, a lake on disk, what it logged, and the service that it calls."""

    lake: Path
    log: StringIO
    emr: FakeEmrClient = field(default_factory=FakeEmrClient)

    def invoke(self, event: Any) -> Any:
        return function.handler(event, cast("Any", FakeContext()))

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


def test_several_wakes_of_one_pipeline_are_one_dispatch(deployed: Deployed) -> None:
    deployed.land("events", "landing")
    deployed.invoke(wakes("events", "events", "events"))
    assert len(deployed.logged("dispatched")) == 1


def test_only_the_wakes_of_a_pipeline_that_could_not_be_looked_after_come_again(deployed: Deployed) -> None:
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


def test_a_wake_of_a_pipeline_that_was_taken_out_is_logged_and_done_with(deployed: Deployed) -> None:
    assert deployed.invoke(wakes("gone")) == {"batchItemFailures": []}
    assert [line["pipeline"] for line in deployed.logged("pipeline_unknown")] == ["gone"]


def test_a_message_that_is_no_wake_is_reported_until_the_queue_sets_it_aside(deployed: Deployed) -> None:
    event = wakes("events")
    event["Records"][0]["body"] = "hello"
    assert deployed.invoke(event) == {"batchItemFailures": [{"itemIdentifier": "m0"}]}
    assert [line["message_id"] for line in deployed.logged("message_bad")] == ["m0"]


def test_the_end_of_a_run_starts_the_next_one_of_its_pipeline(deployed: Deployed) -> None:
    deployed.land("events", "landing")
    deployed.invoke(sample("schedule_dispatch"))
    [run] = deployed.emr.runs.values()
    run["state"] = "CANCELLED"
    assert deployed.invoke(sample("emr_job_state")) == {}
    assert deployed.logged("run_failed")[0]["reason"] == "CANCELLED"
    assert len(deployed.emr.runs) == 1, "there is a wait first"


def test_an_event_is_only_a_hint_the_service_says_what_is_so(deployed: Deployed) -> None:
    deployed.land("events", "landing")
    deployed.invoke(sample("schedule_dispatch"))
    deployed.invoke(sample("emr_job_state"))
    assert deployed.started() == ["blizzard-events"]
    assert not deployed.logged("run_succeeded")


@pytest.mark.parametrize("name", ["nightly-report", "blizzard-gone"])
def test_a_run_that_is_not_ours_is_ignored(name: str, deployed: Deployed) -> None:
    event = sample("emr_job_state")
    event["detail"]["jobRunName"] = name
    assert deployed.invoke(event) == {}
    assert [line["run"] for line in deployed.logged("run_ignored")] == [name]
    assert not deployed.logged("dispatched")


def test_the_schedule_looks_after_every_pipeline(deployed: Deployed) -> None:
    deployed.land("events", "landing")
    deployed.land("clicks", "web")
    assert deployed.invoke(sample("schedule_dispatch")) == {}
    assert deployed.started() == ["blizzard-events", "blizzard-clicks"]


def test_one_pipelines_trouble_keeps_no_other_and_is_an_error_in_the_end(deployed: Deployed) -> None:
    deployed.land("clicks", "web")
    deployed.lake.mkdir(exist_ok=True)
    (deployed.lake / "events").write_text("a file where the table's folder should be")
    with pytest.raises(DispatchFailed, match=r"^events: "):
        deployed.invoke(sample("schedule_dispatch"))
    assert deployed.started() == ["blizzard-clicks"]
    assert [line["pipeline"] for line in deployed.logged("dispatch_failed")] == ["events"]


def test_an_unknown_event_is_logged_and_raised(deployed: Deployed) -> None:
    with pytest.raises(UnknownEvent):
        deployed.invoke({"hello": "world"})
    assert "hello" in deployed.logged("event_unknown")[0]["error"]


def test_a_wrong_environment_is_an_error_that_names_it(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BLIZZARD_APPLICATION_ID")
    monkeypatch.setenv("BLIZZARD_MAX_EXECUTORS", "many")
    with pytest.raises(ConfigError, match=r"(?s)BLIZZARD_APPLICATION_ID: .*BLIZZARD_MAX_EXECUTORS: "):
        deployed.invoke(sample("schedule_dispatch"))


def published_metrics(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    return {document["pipeline"]: document for document in documents}


def test_metrics_are_by_pipeline_and_over_all(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_backlog_that_cannot_be_read_has_no_number(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    deployed.lake.mkdir()
    (deployed.lake / "events").write_text("a file where the table's folder should be")
    deployed.invoke(wakes("events"))
    published = published_metrics(capsys)["events"]
    assert published["RunsStarted"] == [0.0]
    assert {"OldestPendingSeconds", "BacklogFiles"}.isdisjoint(published)


def test_the_function_starts_without_what_its_bundle_does_not_have() -> None:
    heavy = ["pydantic", "ruamel", "obstore", "orjson", "pyarrow", "typer", "rich", "boto3", "pyspark"]
    code = f"import sys, functions.dispatcher.handler; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env={})
    assert done.stdout == "[]\n"
