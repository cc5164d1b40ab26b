"""The collector reads its configuration again from time to time, and wakes pipelines after an append."""

from dataclasses import dataclass, field

import pytest

from blizzard.collect.collector import Message
from blizzard.collect.routing import Route, Router
from blizzard.dispatch.wake import WakeNotSent, Waker, WakeUp
from blizzard.errors import BlizzardError, ConfigError, StorageUnavailable
from blizzard.manifest.pending_manifest import Manifest
from blizzard.storage.memory import MemoryStore
from functions.collector.composition import Collector, Setup
from functions.runtime import RELOAD_SECS, ReloadingConfig
from tests.unit.s3_messages import message, put


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
    """A collector, its clock, its configuration, the wakes it sent, and what it logged."""

    configuration: FakeConfiguration
    now_ts: float = 0.0
    woken: list[WakeUp] = field(default_factory=list)
    errors: list[dict[str, object]] = field(default_factory=list)
    queue_is_down: bool = False

    def __post_init__(self) -> None:
        config = ReloadingConfig(self.configuration.read, self.configuration.build, self.log_error)
        self.collector = Collector(config, Waker(self.send, 15.0, self.log_error), lambda: self.now_ts)

    def log_error(self, event: str, /, **fields: object) -> None:
        self.errors.append({"event": event, **fields})

    def send(self, wake: WakeUp, /) -> None:
        if self.queue_is_down:
            raise WakeNotSent("slow down")
        self.woken.append(wake)

    def segment_of(self, now_ts: float) -> str | None:
        """The source that gets an event at a time; None when no source does."""
        self.now_ts = now_ts
        appended = self.collector.collect([message("1", put("a/x"))], writer_id="w").result.appended
        return appended[0].draft.source_id if appended else None


@pytest.fixture
def world() -> World:
    return World(FakeConfiguration(Manifest(MemoryStore(lambda: 0.0), "s", "any")))


class TestReloading:
    def test_a_changed_configuration_is_used_after_the_reload_interval(self, world: World) -> None:
        assert world.segment_of(1000.0) == "one"
        world.configuration.text = "two"
        assert world.segment_of(1000.0 + RELOAD_SECS - 1) == "one"
        assert world.segment_of(1000.0 + RELOAD_SECS) == "two"

    def test_an_unchanged_configuration_is_not_built_again(self, world: World) -> None:
        for turn in range(5):
            world.segment_of(turn * RELOAD_SECS)
        assert world.configuration.builds == 1

    @pytest.mark.parametrize("broken", ["broken", StorageUnavailable("slow down"), ConfigError(["gone"])])
    def test_a_broken_configuration_is_logged_and_the_old_one_stays_in_use(
        self, world: World, broken: str | BlizzardError
    ) -> None:
        world.segment_of(0.0)
        world.configuration.text = broken
        assert world.segment_of(RELOAD_SECS) == "one"
        assert [error["event"] for error in world.errors] == ["config_reload_failed"]
        world.configuration.text = "mended"
        assert world.segment_of(2 * RELOAD_SECS) == "mended"

    def test_without_a_first_configuration_the_batch_fails(self, world: World) -> None:
        world.configuration.text = StorageUnavailable("slow down")
        with pytest.raises(StorageUnavailable):
            world.segment_of(0.0)
        world.configuration.text = "one"
        assert world.segment_of(1.0) == "one"


class TestWaking:
    def test_an_append_wakes_its_pipeline(self, world: World) -> None:
        world.segment_of(100.0)
        assert world.woken == [WakeUp("pipeline of one", "pipeline of one-6")]

    def test_a_window_of_appends_is_one_wake(self, world: World) -> None:
        for now_ts in (90.0, 91.0, 104.9, 105.0):
            world.segment_of(now_ts)
        assert [wake.deduplication_id for wake in world.woken] == ["pipeline of one-6", "pipeline of one-7"]

    def test_without_an_append_no_wake_is_sent(self, world: World) -> None:
        world.collector.collect([message("1", put("elsewhere/x")), Message("2", "hello")], writer_id="w")
        assert world.woken == []

    def test_a_wake_that_fails_is_counted_and_the_append_stands(self, world: World) -> None:
        world.queue_is_down = True
        collected = world.collector.collect([message("1", put("a/x"))], writer_id="w")
        assert collected.wakes_failed == 1
        assert collected.result.failed_message_ids == ()
        assert [error["event"] for error in world.errors] == ["wake_failed"]
