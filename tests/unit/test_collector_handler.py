"""The collector function with a published configuration, on the sample events, with its metrics and its log."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from logging import StreamHandler
from pathlib import Path
from typing import Any, cast

import pytest

from blizzard.config.load import parse_config
from blizzard.config.publish import to_published
from blizzard.errors import ConfigError
from functions.collector import handler as function

ROOT = Path(__file__).parents[2]

CONFIG = """
pipelines:
  events:
    table_uri: {table}
    sources:
      landing:
        uri: s3://landing/raw-events/
        pattern: "**/*.ndjson.gz"
        format: ndjson
        schema: "id STRING"
"""


@dataclass
class FakeContext:
    """What Lambda tells a function about its call."""

    aws_request_id: str = "request-1"
    function_name: str = "collector"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:eu-west-1:111122223333:function:collector"


@dataclass
class Deployed:
    """The function with a configuration, a table on disk, and what it printed."""

    table: Path
    log: StringIO

    def invoke(self, *events: Any) -> Any:
        records = [record for event in events for record in event["Records"]]
        return function.handler({"Records": records}, cast("Any", FakeContext()))

    def segments(self) -> list[Any]:
        folder = self.table / "_blizzard"
        return [json.loads(path.read_text()) for path in sorted(folder.glob("**/pending/*.json"))]

    def logged(self, event: str) -> list[Any]:
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["message"] == event]


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    config, log = tmp_path / "config.json", StringIO()
    config.write_text(to_published(parse_config(CONFIG.format(table=tmp_path / "lake"), {})))
    monkeypatch.setenv("BLIZZARD_CONFIG", str(config))
    function.collector.cache_clear()
    output = cast("StreamHandler[Any]", function.logger.registered_handler)
    before = output.setStream(log)
    yield Deployed(tmp_path / "lake", log)
    output.setStream(before)
    function.collector.cache_clear()


def sample(name: str) -> Any:
    return json.loads((ROOT / "events" / f"{name}.json").read_text())


def is_for_the_collector(name: str) -> bool:
    """Other functions have events of their own in that folder."""
    queues = [record["eventSourceARN"].rpartition(":")[2] for record in sample(name).get("Records", [])]
    return queues == ["blizzard-events"]


SAMPLES = sorted(path.stem for path in (ROOT / "events").iterdir() if is_for_the_collector(path.stem))


class TestHandler:
    @pytest.mark.parametrize("name", SAMPLES)
    def test_each_sample_is_either_appended_or_ignored(self, name: str, deployed: Deployed) -> None:
        assert deployed.invoke(sample(name)) == {"batchItemFailures": []}
        files = [entry["path"] for segment in deployed.segments() for entry in segment["entries"]]
        assert len(files) + len(deployed.logged("event_ignored")) == 1

    def test_all_samples_at_once_are_one_segment_of_their_files(self, deployed: Deployed) -> None:
        deployed.invoke(*map(sample, SAMPLES))
        [segment] = deployed.segments()
        assert segment["source"] == "events:landing"
        assert segment["writer"].startswith("request-1-")
        assert {entry["path"] for entry in segment["entries"]} == {
            "date=2024-01-28/1706450400-01926abc.ndjson.gz",
            "date=2024-01-28/a b+c%d é 100%25.ndjson.gz",
        }

    def test_a_bad_message_is_reported_and_logged_by_its_id(self, deployed: Deployed) -> None:
        bad = {"Records": [{"messageId": "bad-1", "body": "hello"}]}
        assert deployed.invoke(sample("s3_put"), bad) == {"batchItemFailures": [{"itemIdentifier": "bad-1"}]}
        assert len(deployed.segments()) == 1
        assert [line["message_id"] for line in deployed.logged("message_bad")] == ["bad-1"]

    def test_a_failed_append_is_reported_and_logged(self, deployed: Deployed, tmp_path: Path) -> None:
        (tmp_path / "lake").write_text("a file where the table's folder should be")
        [message_id] = [record["messageId"] for record in sample("s3_put")["Records"]]
        assert deployed.invoke(sample("s3_put")) == {"batchItemFailures": [{"itemIdentifier": message_id}]}
        assert [line["source"] for line in deployed.logged("append_failed")] == ["events:landing"]

    def test_an_empty_batch_succeeds(self, deployed: Deployed) -> None:
        assert deployed.invoke() == {"batchItemFailures": []}
        assert deployed.segments() == []

    def test_two_invocations_with_the_same_batch_write_two_different_segments(self, deployed: Deployed) -> None:
        deployed.invoke(sample("s3_put"))
        deployed.invoke(sample("s3_put"))
        first, second = deployed.segments()
        assert (first["segment"], second["segment"]) == (0, 1)
        assert first["writer"] != second["writer"]

    def test_metrics_count_what_happened(self, deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
        deployed.invoke(*map(sample, SAMPLES), {"Records": [{"messageId": "bad-1", "body": "hello"}]})
        published = json.loads(capsys.readouterr().out)
        [metrics] = published["_aws"]["CloudWatchMetrics"]
        assert metrics["Namespace"] == "Blizzard"
        assert {metric["Name"]: published[metric["Name"]] for metric in metrics["Metrics"]} == {
            "EventsReceived": [14.0],
            "FilesAppended": [2.0],
            "EventsMerged": [7.0],
            "EventsIgnored": [5.0],
            "BadMessages": [1.0],
            "SegmentsAppended": [1.0],
            "AppendsFailed": [0.0],
            "WakesFailed": [0.0],
        }

    def test_every_metric_is_in_the_docs(self, deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
        deployed.invoke()
        [metrics] = json.loads(capsys.readouterr().out)["_aws"]["CloudWatchMetrics"]
        documented = (ROOT / "docs" / "events.md").read_text()
        assert [metric["Name"] for metric in metrics["Metrics"] if f"`{metric['Name']}`" not in documented] == []

    def test_a_missing_setting_says_its_name(self, deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("BLIZZARD_CONFIG")
        with pytest.raises(ConfigError, match="BLIZZARD_CONFIG"):
            deployed.invoke()

    def test_a_configuration_that_was_never_published_says_so(self, deployed: Deployed, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text(CONFIG)
        with pytest.raises(ConfigError, match="run `make publish`"):
            deployed.invoke()


IMPORT = """
import socket
def refuse(*args, **kwargs): raise OSError("no network")
socket.socket.connect = socket.getaddrinfo = refuse
import functions.collector.handler
"""


def test_importing_the_function_needs_neither_environment_nor_network() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT], cwd=ROOT, env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
