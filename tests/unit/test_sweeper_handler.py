"""The sweeper function with a published configuration, on real folders, with its metrics and its log."""

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
from blizzard.state.checkpoint import Checkpoint, encode
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.state.schema_changes import ChangeRecords, FieldChange, SchemaChange
from blizzard.state.unknown_fields import UnknownField, UnknownFields
from blizzard.storage.local import LocalStore
from blizzard.sweep.reports import SweepReports, read_reports
from functions.sweeper import handler as function

ROOT = Path(__file__).parents[2]

CONFIG = """
pipelines:
  events:
    table_uri: {lake}
    sources:
      landing: {{uri: {landing}, pattern: "*.gz", format: text}}
      gone: {{uri: {landing}-gone, format: text}}
"""


@dataclass
class FakeContext:
    """What Lambda tells a function about its call."""

    aws_request_id: str = "request-1"
    function_name: str = "sweeper"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:eu-west-1:111122223333:function:sweeper"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


@dataclass
class Deployed:
    landing: Path
    lake: Path
    log: StringIO

    def invoke(self, event: Any) -> Any:
        return function.handler(event, cast("Any", FakeContext()))

    def logged(self, event: str) -> list[Any]:
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["message"] == event]


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    """The function with a configuration, folders on disk, and what it printed."""
    made = Deployed(tmp_path / "landing", tmp_path / "lake", StringIO())
    made.landing.mkdir()
    config = tmp_path / "config.json"
    config.write_text(to_published(parse_config(CONFIG.format(lake=made.lake, landing=made.landing), {})))
    monkeypatch.setenv("BLIZZARD_CONFIG", str(config))
    function.sweep_round.cache_clear()
    output = cast("StreamHandler[Any]", function.logger.registered_handler)
    before = output.setStream(made.log)
    yield made
    output.setStream(before)
    function.sweep_round.cache_clear()


def sample() -> Any:
    return json.loads((ROOT / "events" / "schedule_sweep.json").read_text())


class TestHandler:
    def test_the_schedule_sweeps_the_due_sources(self, deployed: Deployed) -> None:
        (deployed.landing / "a.gz").write_bytes(b"x")
        (deployed.landing / "a.txt").write_bytes(b"x")
        counts = deployed.invoke(sample())
        assert (counts["FilesFound"], counts["Sweeps"], counts["SweepsFailed"]) == (1, 1, 1)
        [segment] = (deployed.lake / "_blizzard/events_landing/pending").iterdir()
        assert [entry["path"] for entry in json.loads(segment.read_text())["entries"]] == ["a.gz"]
        assert [line["source"] for line in deployed.logged("sweep_failed")] == ["events:gone"]
        assert [line["source"] for line in deployed.logged("swept")] == ["events:landing"]

    def test_metrics_count_what_happened(self, deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
        counts = deployed.invoke(sample())
        published = json.loads(capsys.readouterr().out)
        [metrics] = published["_aws"]["CloudWatchMetrics"]
        assert (metrics["Namespace"], metrics["Dimensions"], published["service"]) == (
            "Blizzard",
            [["service"]],
            "sweeper",
        )
        assert {metric["Name"]: published[metric["Name"]] for metric in metrics["Metrics"]} == {
            name: [float(count)] for name, count in counts.items()
        }
        assert {"FilesMissed", "SweepsFailed", "SweepsIncomplete"} <= counts.keys()

    def test_what_was_committed_since_the_last_sweep_is_published(
        self, deployed: Deployed, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Before the report says that it is counted."""
        identity = SourceIdentity("events", "landing", "_blizzard/events_landing")
        state = LocalStore(deployed.lake, may_be_missing=True)
        lines = [ReceiptLine("a.gz", "e", 9, 7, 2, 1.0), ReceiptLine("b.gz", "e", 9, 0, 0, 1.0, error="torn")]
        receipts = Receipts(state, identity.state_prefix)
        receipt = receipts.put(sequence=0, attempt="x", previous=None, now_ts=1.0, lines=lines)
        state.put(identity.report_key, SweepReports(counted=-1).to_json().encode())
        state.put(identity.copy_key, encode(Checkpoint("events", "landing", 0, receipt=receipt.name)).encode())
        deployed.invoke(sample())
        published = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        names = ("FilesCommitted", "RowsCommitted", "DeadFiles", "DeadRecords")
        (counts,) = [line for line in published if "RowsCommitted" in line]
        assert {name: counts[name] for name in names} == dict(zip(names, ([2.0], [7.0], [1.0], [2.0]), strict=True))
        assert counts["service"] == "sweeper"
        assert not [line for line in published if "UnknownValues" in line or "SchemaChanges" in line]
        assert read_reports(state, identity).counted == 0
        deployed.invoke(sample())
        assert "RowsCommitted" not in capsys.readouterr().out

    def test_what_was_not_as_the_schema_says_is_published_if_there_was_anything(
        self, deployed: Deployed, capsys: pytest.CaptureFixture[str]
    ) -> None:
        identity = SourceIdentity("events", "landing", "_blizzard/events_landing")
        state = LocalStore(deployed.lake, may_be_missing=True)
        fields = UnknownFields((UnknownField("a", 5, "f"), UnknownField("b", 2, "f")))
        receipt = Receipts(state, identity.state_prefix).put(
            sequence=0, attempt="x", previous=None, now_ts=1.0, lines=(), unknown_fields=fields
        )
        change = SchemaChange((FieldChange("c", "string", None, 1, "f"),))
        records = ChangeRecords(state, identity.state_prefix, identity.source_id)
        record = records.put(change, sequence=0, attempt="x", after_version=0, previous=None, now_ts=1.0)
        state.put(identity.report_key, SweepReports(counted=-1).to_json().encode())
        checkpoint = Checkpoint("events", "landing", 0, receipt=receipt.name, schema_change=record.name)
        state.put(identity.copy_key, encode(checkpoint).encode())
        deployed.invoke(sample())
        published = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        (counts,) = [line for line in published if "UnknownValues" in line]
        assert (counts["UnknownValues"], counts["SchemaChanges"], "MisfitValues" in counts) == ([7.0], [1.0], False)
        assert counts["service"] == "sweeper"
        deployed.invoke(sample())
        assert "UnknownValues" not in capsys.readouterr().out

    @pytest.mark.parametrize("event", [{}, {"schedule": "dispatch"}, {"Records": []}])
    def test_another_event_is_refused(self, deployed: Deployed, event: Any) -> None:
        with pytest.raises(ConfigError, match=r'expected \{"schedule": "sweep"\}'):
            deployed.invoke(event)

    def test_without_a_configuration_the_invocation_fails(
        self, deployed: Deployed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("BLIZZARD_CONFIG")
        with pytest.raises(ConfigError, match="BLIZZARD_CONFIG"):
            deployed.invoke(sample())


IMPORT = """
import socket
def refuse(*args, **kwargs): raise OSError("no network")
socket.socket.connect = socket.getaddrinfo = refuse
import functions.sweeper.handler
"""


def test_importing_the_function_needs_neither_environment_nor_network() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT], cwd=ROOT, env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
