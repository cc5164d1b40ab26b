"""A batch of messages becomes one segment per source; trouble stays with the messages that it belongs to."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from logging import StreamHandler
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.collect.collector import CollectResult, Message, collect, supersedes
from blizzard.collect.messages import FileArrived, Reason
from blizzard.collect.routing import Route, Router
from blizzard.config.load import parse_config
from blizzard.config.publish import to_published
from blizzard.dispatch.wake import Wake, WakeNotSent, Waker
from blizzard.errors import BlizzardError, ConfigError, StorageUnavailable
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.storage.memory import MemoryStore
from functions.collector import handler as function
from functions.collector.composition import Collector, Setup
from functions.runtime import RELOAD_SECS, Configured

ROOT = Path(__file__).parents[2]
ROUTER = Router(
    [
        Route("events:a", "s3://landing/a/", lambda path: not path.endswith(".tmp")),
        Route("events:b", "s3://landing/b/", lambda path: True),
    ]
)


def put(key: str, *, etag: str = "e1", sequencer: str | None = "01", time: str = "2024-01-28T14:00:00.000Z") -> Any:
    """One record as S3 sends it."""
    described = {"key": quote_plus(key, safe="/"), "size": 10, "eTag": etag, "sequencer": sequencer}
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "eventTime": time,
        "s3": {"bucket": {"name": "landing"}, "object": described},
    }


def message(message_id: str, *records: Any) -> Message:
    return Message(message_id, json.dumps({"Records": records}))


@dataclass
class FakeManifests:
    """Remembers what was appended, and refuses for the sources in `broken`."""

    broken: set[str] = field(default_factory=set)
    segments: list[tuple[str, tuple[Entry, ...]]] = field(default_factory=list)

    def __call__(self, source_id: str, entries: Sequence[Entry], /) -> int:
        if source_id in self.broken:
            raise StorageUnavailable(f"{source_id}: slow down")
        self.segments.append((source_id, tuple(entries)))
        return len(self.segments) - 1

    def paths(self, source_id: str) -> list[str]:
        return [entry.path for owner, entries in self.segments if owner == source_id for entry in entries]


def collected(*messages: Message, broken: Sequence[str] = ()) -> tuple[CollectResult, FakeManifests]:
    manifests = FakeManifests(set(broken))
    return collect(messages, ROUTER, manifests), manifests


class TestCollecting:
    def test_a_batch_becomes_one_segment_per_source(self) -> None:
        result, manifests = collected(
            message("1", put("a/d=1/x")), message("2", put("b/y")), message("3", put("a/z"), put("b/é +%"))
        )
        assert [source for source, _ in manifests.segments] == ["events:a", "events:b"]
        assert manifests.paths("events:a") == ["d=1/x", "z"]
        assert manifests.paths("events:b") == ["y", "é +%"]
        assert result.failed_message_ids == ()

    def test_an_entry_carries_all_that_the_event_says(self) -> None:
        record = put("a/x", etag="e9", sequencer="0F")
        record["s3"]["object"]["versionId"] = "v1"
        _, manifests = collected(message("1", record))
        [(_, [entry])] = manifests.segments
        assert entry == Entry("x", 10, "e9", 1706450400.0, version_id="v1", sequencer="0F")

    def test_a_message_that_is_no_s3_event_fails_alone(self) -> None:
        result, manifests = collected(message("1", put("a/x")), Message("2", "hello"), message("3", put("a/y")))
        assert result.failed_message_ids == ("2",)
        assert manifests.paths("events:a") == ["x", "y"]
        assert "begins 'hello'" in str(result.bad[0].error)

    def test_of_a_message_that_is_bad_in_part_nothing_is_appended(self) -> None:
        result, manifests = collected(message("1", put("a/x"), {"eventSource": "aws:s3"}))
        assert result.failed_message_ids == ("1",)
        assert manifests.segments == []

    def test_what_no_source_wants_is_ignored_and_said(self) -> None:
        result, manifests = collected(message("1", put("a/x.tmp")), message("2", put("elsewhere/y")))
        assert [(one.reason, one.detail) for one in result.ignored] == [
            (Reason.NO_SOURCE, "s3://landing/a/x.tmp"),
            (Reason.NO_SOURCE, "s3://landing/elsewhere/y"),
        ]
        assert result.failed_message_ids == ()
        assert manifests.segments == []

    def test_a_source_that_cannot_be_appended_to_fails_only_its_own_messages(self) -> None:
        result, manifests = collected(
            message("1", put("a/x")),
            message("2", put("b/y")),
            message("3", put("a/z"), put("b/z")),
            broken=["events:b"],
        )
        assert result.failed_message_ids == ("2", "3")
        assert manifests.paths("events:a") == ["x", "z"]
        assert "slow down" in str(result.failed[0].error)

    def test_a_message_that_two_sources_failed_is_reported_once(self) -> None:
        result, _ = collected(message("1", put("a/x"), put("b/y")), broken=["events:a", "events:b"])
        assert len(result.failed) == 2
        assert result.failed_message_ids == ("1",)

    def test_a_duplicate_whose_source_failed_comes_again_too(self) -> None:
        result, _ = collected(message("1", put("a/x")), message("2", put("a/x")), broken=["events:a"])
        assert result.failed_message_ids == ("1", "2")

    def test_the_same_event_twice_is_one_entry(self) -> None:
        result, manifests = collected(message("1", put("a/x")), message("2", put("a/x"), put("a/x")))
        assert manifests.paths("events:a") == ["x"]
        assert (result.merged, result.files_appended, result.events) == (2, 1, 3)

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_of_two_states_of_one_file_the_later_is_kept_whichever_came_first(self, order: tuple[int, int]) -> None:
        states = [put("a/x", etag="old", sequencer="0A"), put("a/x", etag="new", sequencer="0A01")]
        _, manifests = collected(*(message(str(i), states[i]) for i in order))
        [(_, [entry])] = manifests.segments
        assert entry.etag == "new"

    def test_an_empty_batch_appends_nothing(self) -> None:
        result, manifests = collected()
        assert (result.failed_message_ids, result.events, manifests.segments) == ((), 0, [])

    @given(st.lists(st.lists(st.sampled_from(["a/x", "a/y", "a/x.tmp", "b/x", "c/x", "bad"]), max_size=4)))
    def test_every_message_is_done_or_reported_and_every_event_counted(self, batch: list[list[str]]) -> None:
        messages = [
            message(str(i), *({} if key == "bad" else put(key, sequencer=f"{i:02x}{j}") for j, key in enumerate(keys)))
            for i, keys in enumerate(batch)
        ]
        result, manifests = collected(*messages, broken=["events:b"])
        good = [keys for keys in batch if "bad" not in keys]
        assert set(manifests.paths("events:a")) == {
            key[2:] for keys in good for key in keys if key.startswith("a/") and key != "a/x.tmp"
        }
        assert len(manifests.paths("events:a")) == len(set(manifests.paths("events:a")))
        reported = {str(i) for i, keys in enumerate(batch) if "bad" in keys or "b/x" in keys}
        assert set(result.failed_message_ids) == reported
        assert len(result.failed_message_ids) == len(reported)
        assert result.events == sum(len(keys) for keys in good)


STATES = st.builds(
    FileArrived,
    bucket=st.just("landing"),
    key=st.just("x"),
    size=st.just(1),
    etag=st.sampled_from("abc"),
    event_ts=st.sampled_from([1.0, 2.0]),
    sequencer=st.sampled_from(["01", "02", "0200", "03"]),
)


@given(st.lists(STATES, min_size=2, max_size=2, unique_by=lambda state: (state.sequencer or "").rstrip("0")))
def test_the_sequencer_decides_and_not_the_time(states: list[FileArrived]) -> None:
    one, other = states
    assert supersedes(one, other) is not supersedes(other, one)
    assert supersedes(one, other) is supersedes(replace(one, event_ts=0.0), other)


def test_without_a_sequencer_the_later_time_wins_and_then_the_later_arrival() -> None:
    early = FileArrived("landing", "x", 1, "a", event_ts=1.0)
    late = replace(early, event_ts=2.0, sequencer="01")
    assert supersedes(late, early)
    assert not supersedes(early, late)
    assert supersedes(early, early)


@dataclass
class FakeConfiguration:
    """A configuration whose text can change, or be unreadable; each version has one source named after it."""

    manifest: Manifest
    text: str | BlizzardError = "one"
    builds: int = 0

    def read(self) -> str:
        if isinstance(self.text, BlizzardError):
            raise self.text
        return self.text

    def build(self, text: str) -> Setup:
        self.builds += 1
        if text == "broken":
            raise ConfigError(["source: expected a mapping"])
        router = Router([Route(text, "s3://landing/a/", lambda path: True)])
        return Setup(router, {text: self.manifest}, {text: f"pipeline of {text}"})


@dataclass
class World:
    """A collector, its clock, its configuration, whom it woke, and what it logged."""

    configuration: FakeConfiguration
    now_ts: float = 0.0
    woken: list[Wake] = field(default_factory=list)
    errors: list[dict[str, object]] = field(default_factory=list)
    queue_is_down: bool = False

    def __post_init__(self) -> None:
        configured = Configured(self.configuration.read, self.configuration.build, self.log_error)
        self.collector = Collector(configured, Waker(self.send, 15.0, self.log_error), lambda: self.now_ts)

    def log_error(self, event: str, /, **fields: object) -> None:
        self.errors.append({"event": event, **fields})

    def send(self, wake: Wake, /) -> None:
        if self.queue_is_down:
            raise WakeNotSent("slow down")
        self.woken.append(wake)

    def segment_of(self, now_ts: float) -> str | None:
        """The source that an event goes to at a time; None when there was nobody."""
        self.now_ts = now_ts
        appended = self.collector.collect([message("1", put("a/x"))], writer_id="w").result.appended
        return appended[0].draft.source_id if appended else None


@pytest.fixture
def world() -> World:
    return World(FakeConfiguration(Manifest(MemoryStore(lambda: 0.0), "s", "any")))


class TestReloading:
    def test_a_change_is_seen_after_a_while(self, world: World) -> None:
        assert world.segment_of(1000.0) == "one"
        world.configuration.text = "two"
        assert world.segment_of(1000.0 + RELOAD_SECS - 1) == "one"
        assert world.segment_of(1000.0 + RELOAD_SECS) == "two"

    def test_an_unchanged_one_is_not_built_again(self, world: World) -> None:
        for turn in range(5):
            world.segment_of(turn * RELOAD_SECS)
        assert world.configuration.builds == 1

    @pytest.mark.parametrize("trouble", ["broken", StorageUnavailable("slow down"), ConfigError(["gone"])])
    def test_a_broken_change_leaves_the_old_one_in_use_and_is_logged(
        self, world: World, trouble: str | BlizzardError
    ) -> None:
        world.segment_of(0.0)
        world.configuration.text = trouble
        assert world.segment_of(RELOAD_SECS) == "one"
        assert [error["event"] for error in world.errors] == ["config_reload_failed"]
        world.configuration.text = "mended"
        assert world.segment_of(2 * RELOAD_SECS) == "mended"

    def test_without_a_first_one_the_batch_fails(self, world: World) -> None:
        world.configuration.text = StorageUnavailable("slow down")
        with pytest.raises(StorageUnavailable):
            world.segment_of(0.0)
        world.configuration.text = "one"
        assert world.segment_of(1.0) == "one"


class TestWaking:
    def test_an_append_wakes_its_pipeline(self, world: World) -> None:
        world.segment_of(100.0)
        assert world.woken == [Wake("pipeline of one", "pipeline of one-6")]

    def test_a_window_of_appends_is_one_wake(self, world: World) -> None:
        for now_ts in (90.0, 91.0, 104.9, 105.0):
            world.segment_of(now_ts)
        assert [wake.deduplication_id for wake in world.woken] == ["pipeline of one-6", "pipeline of one-7"]

    def test_without_an_append_nobody_is_woken(self, world: World) -> None:
        world.collector.collect([message("1", put("elsewhere/x")), Message("2", "hello")], writer_id="w")
        assert world.woken == []

    def test_a_wake_that_fails_is_counted_and_the_append_stands(self, world: World) -> None:
        world.queue_is_down = True
        collected = world.collector.collect([message("1", put("a/x"))], writer_id="w")
        assert collected.wakes_failed == 1
        assert collected.result.failed_message_ids == ()
        assert [error["event"] for error in world.errors] == ["wake_failed"]


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
    def test_each_sample_is_taken_and_either_appended_or_ignored(self, name: str, deployed: Deployed) -> None:
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

    def test_an_empty_batch_is_well(self, deployed: Deployed) -> None:
        assert deployed.invoke() == {"batchItemFailures": []}
        assert deployed.segments() == []

    def test_two_calls_with_one_batch_write_two_segments_and_never_the_same(self, deployed: Deployed) -> None:
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
