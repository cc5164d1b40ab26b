"""A round of the sweeper over the sources that are due, on stores in memory that may fail."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from blizzard.config.published import PublishedSource, PublishedTopics
from blizzard.dispatch.wake import WakeNotSent, Waker, WakeUp
from blizzard.errors import AccessDenied
from blizzard.manifest.pending_manifest import Manifest
from blizzard.state.checkpoint import Checkpoint, encode
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.state.topic_checkpoint import TopicCheckpoint
from blizzard.state.topic_checkpoint import encode as encode_topics
from blizzard.storage.memory import MemoryStore
from blizzard.sweep.commit_counts import CommitCounts
from blizzard.sweep.report import SweepKind
from blizzard.sweep.source_sweep import SourceSweep, sweep_rules
from blizzard.sweep.topic_commits import TopicCommits
from functions.runtime import FunctionLog, ReloadingConfig
from functions.sweeper.catalog import TableCatalog
from functions.sweeper.composition import CLAIM_MARGIN_SECS, RoundCounts, Setup, SweepRound
from tests.unit.fakes import Calls, Clock, Crash, WatchedStore, crash
from tests.unit.test_sweeper_schedule import source


class DeniedStore(MemoryStore):
    """Lists nothing, as for a role that may not."""

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[Any]:
        raise AccessDenied(f"list {self.uri}{prefix}: S3 answered 403")

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        raise AccessDenied(f"list {self.uri}{prefix}: S3 answered 403")


@dataclass
class Notes:
    """A function's log that remembers."""

    lines: list[dict[str, object]] = field(default_factory=list)

    def info(self, event: str, /, **fields: object) -> None:
        self.lines.append({"event": event, **fields})

    warning = error = info

    def named(self, event: str) -> list[dict[str, object]]:
        return [line for line in self.lines if line["event"] == event]


class DeniedWrites(MemoryStore):
    def put(self, key: str, data: bytes) -> Any:
        raise AccessDenied(f"put {key}: access denied")


@dataclass
class World:
    """A sweeper with sources in memory. Each reading of the clock advances it by a millisecond."""

    clock: Clock = field(default_factory=lambda: Clock(1_000_000.0, tick_secs=0.001))
    woken: list[str] = field(default_factory=list)
    queue_is_down: bool = False
    file_calls: Calls = field(default_factory=Calls)
    state_calls: Calls = field(default_factory=Calls)
    sources: dict[str, PublishedSource] = field(default_factory=dict)
    files: dict[str, MemoryStore] = field(default_factory=dict)
    sweeps: dict[str, SourceSweep] = field(default_factory=dict)
    log: Notes = field(default_factory=Notes)
    published: list[CommitCounts] = field(default_factory=list)
    catalog: TableCatalog | None = None
    topics: dict[str, tuple[PublishedTopics, TopicCommits]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state = MemoryStore(self.clock, "memory://lake/")

    def add(self, name: str, *paths: str, denied: bool = False, **settings: float) -> None:
        one = source(name, **settings)
        identity = SourceIdentity("p", name, one.state_prefix)
        store = (DeniedStore if denied else MemoryStore)(self.clock, f"memory://{name}/")
        for path in paths:
            store.put(path, b"x")
        rules = sweep_rules(
            pattern="**", prefix_template=None, lookback=1, settle_delay_secs=60.0, late_overlap_secs=100.0
        )
        self.sources[one.id], self.files[name] = one, store
        files, state = WatchedStore(store, self.file_calls), WatchedStore(self.state, self.state_calls)
        self.sweeps[one.id] = SourceSweep(
            identity, files, state, rules, self.clock, lambda: f"w{self.clock()}", lambda *_, **__: None
        )

    def commit(self, name: str, *lines: ReceiptLine) -> None:
        """The receipt and the copy of a first commit."""
        identity = self.sweeps[f"p:{name}"].identity
        receipts = Receipts(self.state, identity.state_prefix)
        receipt = receipts.put(sequence=1, attempt="one", previous=None, now_ts=self.clock(), lines=lines).name
        checkpoint = Checkpoint(pipeline="p", source=name, sequence=1, receipt=receipt)
        self.state.put(identity.copy_key, encode(checkpoint).encode())

    def add_topics(self, name: str) -> SourceIdentity:
        one = PublishedTopics("p", name, "memory://lake/", 900.0, 8, 20.0)
        identity = SourceIdentity("p", name, one.state_prefix)
        commits = TopicCommits(identity, WatchedStore(self.state, self.state_calls), lambda *_, **__: None)
        self.topics[one.id] = (one, commits)
        return identity

    def send(self, wake: WakeUp, /) -> None:
        if self.queue_is_down:
            raise WakeNotSent("the queue is gone")
        self.woken.append(wake.pipeline)

    def run(self, secs: float = 60.0) -> RoundCounts:
        log, setup = cast("FunctionLog", self.log), Setup(self.sources, self.sweeps, self.topics)
        config = ReloadingConfig(lambda: "", lambda _: setup, log.error)
        waker = Waker(self.send, 15.0, log.error)
        sweeps = SweepRound(config, waker, log, self.clock, self.published.append, self.catalog)
        return sweeps.run(deadline_ts=self.clock.now_ts + secs)

    def found(self, name: str) -> list[str]:
        manifest = Manifest(self.state, self.sources[f"p:{name}"].state_prefix, f"p:{name}")
        return [entry.path for ref in manifest.refs() for entry in manifest.read(ref).entries]


@pytest.fixture
def world() -> World:
    return World()


class TestRound:
    def test_an_unannounced_file_is_appended_and_its_pipeline_woken(self, world: World) -> None:
        world.add("a", "x", "y")
        world.add("b")
        done = world.run()
        assert world.found("a") == ["x", "y"]
        assert world.woken == ["p"]
        assert (done.sweeps, done.files_listed, done.files_found, done.failed, done.incomplete) == (2, 2, 2, 0, 0)

    def test_a_source_that_is_not_due_is_not_swept(self, world: World) -> None:
        world.add("a", "x")
        world.run()
        world.clock.advance(30)
        assert world.run().sweeps == 0
        world.clock.advance(30)
        assert world.run().sweeps == 1

    def test_a_due_late_sweep_runs(self, world: World) -> None:
        world.add("a", "x", late_secs=600)
        world.run()
        world.clock.advance(600)
        assert world.run().sweeps == 2
        assert json.loads(world.state.get("_blizzard/p_a_sweep.json"))["late"]["complete"] is True

    def test_a_failing_source_is_logged_and_counted_and_the_others_are_swept(self, world: World) -> None:
        world.add("a", denied=True)
        world.add("b", "x")
        done = world.run()
        assert (done.sweeps, done.failed) == (1, 1)
        assert world.found("b") == ["x"]
        [line] = world.log.named("sweep_failed")
        assert (line["source"], line["kind"], line["error_kind"]) == ("p:a", "watermark", "AccessDenied")

    def test_commits_of_a_source_that_cannot_be_swept_are_counted_once(self, world: World) -> None:
        world.add("a", denied=True)
        world.sweeps["p:a"].write(replace(world.sweeps["p:a"].reports(), counted=0))
        world.commit("a", ReceiptLine("x", "etag", 1, rows=7, dead_records=0, event_ts=0.0))
        failed = [world.run().failed for _ in range(3)]
        assert (failed, [counts.rows for counts in world.published]) == ([1, 1, 1], [7, 0, 0])

    def test_the_invocation_succeeds_even_if_all_sources_fail(self, world: World) -> None:
        world.add("a", denied=True)
        world.add("b", denied=True)
        assert world.run().failed == 2

    def test_a_source_whose_report_cannot_be_read_fails_alone(self, world: World) -> None:
        world.add("a", "x")
        world.add("b", "y")

        def deny() -> None:
            raise AccessDenied("403")

        world.state_calls.before_named("get _blizzard/p_a_sweep.json", deny)
        done = world.run()
        assert (done.sweeps, done.failed) == (1, 1)
        assert world.found("b") == ["y"]

    def test_a_huge_source_does_not_starve_the_others(self, world: World) -> None:
        world.add("huge", *(f"{n:05}" for n in range(5000)))
        world.add("small", "x")
        done = world.run(secs=1.0)
        assert 0 < len(world.found("huge")) < 5000
        assert world.found("small") == ["x"]
        assert (done.sweeps, done.incomplete) == (2, 1)

    def test_a_huge_source_is_completed_over_many_rounds(self, world: World) -> None:
        world.add("huge", *(f"{n:05}" for n in range(5000)))
        world.add("small", "x")
        world.clock.advance(100)
        rounds = 1
        while world.run(secs=1.0).incomplete:
            rounds += 1
            assert rounds < 50
        assert rounds > 2
        assert world.found("huge") == [f"{n:05}" for n in range(5000)]

    def test_sweeps_without_time_left_are_counted_as_incomplete(self, world: World) -> None:
        world.add("a", "x")
        world.add("b", "x")
        done = world.run(secs=0.0)
        assert (done.sweeps, done.incomplete) == (0, 2)
        assert [line["source"] for line in world.log.named("sweep_put_off")] == ["p:a", "p:b"]

    def test_a_missed_file_is_counted_when_its_event_is_overdue(self, world: World) -> None:
        world.add("a")
        world.run()
        world.files["a"].put("x", b"x")
        world.clock.advance(500)
        world.files["a"].put("y", b"y")
        done = world.run()
        assert (done.files_found, done.files_missed) == (2, 1)

    def test_a_wake_that_fails_is_counted(self, world: World) -> None:
        world.add("a", "x")
        world.queue_is_down = True
        assert world.run().wakes_failed == 1
        assert world.found("a") == ["x"]

    def test_a_round_that_begins_during_a_long_sweep_skips_that_source(self, world: World) -> None:
        """Like a first sweep of a quarter of an hour, with a schedule of one minute."""
        rounds: list[RoundCounts] = []
        world.add("huge", *(f"{n:03}" for n in range(200)), late_secs=1e9)
        world.add("small", "x", interval_secs=30.0, late_secs=1e9)

        def another() -> None:
            rounds.append(world.run(secs=890.0))

        world.file_calls.before_named("listed 010", lambda: world.clock.advance(31))
        for name, secs in (("020", 29), ("040", 60), ("060", 60)):
            world.file_calls.before_named(f"listed {name}", lambda secs=secs: world.clock.advance(secs))
            world.file_calls.before_named(f"listed {int(name) + 1:03}", another)
        first = world.run(secs=890.0)
        assert world.found("huge") == [f"{n:03}" for n in range(200)]
        assert world.found("small") == ["x"]
        assert [done.files_listed for done in rounds] == [1, 0, 0]
        assert (first.sweeps, first.incomplete, [done.incomplete for done in rounds]) == (1, 0, [0, 0, 0])
        assert world.sweeps["p:huge"].reports().sweeping_until_ts is None

    def test_the_source_of_a_killed_function_is_swept_after_its_claim_ends(self, world: World) -> None:
        world.add("a", *(f"{n:03}" for n in range(9)))
        world.file_calls.before_named("listed 003", lambda: world.clock.advance(40))
        world.file_calls.before_named("listed 005", crash)
        began_ts = world.clock.now_ts
        with pytest.raises(Crash):
            world.run(secs=890.0)
        world.clock.now_ts = began_ts + 890.0 + CLAIM_MARGIN_SECS - 1
        assert world.run().sweeps == 0
        world.clock.advance(2)
        assert world.run().sweeps == 1
        assert world.found("a") == [f"{n:03}" for n in range(9)]

    def test_a_source_that_fails_during_its_sweep_is_retried_by_the_next_round(self, world: World) -> None:
        world.add("a", "x", "y")

        def denied() -> None:
            raise AccessDenied("403")

        world.file_calls.before_named("listed x", lambda: world.clock.advance(40))
        world.file_calls.before_named("listed y", denied)
        assert world.run(secs=890.0).failed == 1
        assert world.run().sweeps == 1

    def test_a_sweep_that_another_round_did_meanwhile_is_not_repeated(self, world: World) -> None:
        world.add("a", "x")
        world.add("b", "y")
        world.file_calls.before_named("listed x", lambda: world.sweeps["p:b"].sweep(SweepKind.WATERMARK))
        assert (world.run().sweeps, world.found("b")) == (1, ["y"])
        assert world.log.named("sweep_put_off") == []

    def test_a_round_claims_at_once_while_another_round_is_active(self, world: World) -> None:
        world.add("a", "x")
        world.add("b", "y")
        claimed = replace(world.sweeps["p:a"].reports(), sweeping_until_ts=world.clock.now_ts + 500)
        world.sweeps["p:a"].write(claimed)
        during: list[float | None] = []
        world.file_calls.before_named(
            "listed y", lambda: during.append(world.sweeps["p:b"].reports().sweeping_until_ts)
        )
        assert world.run().sweeps == 1
        [until_ts] = during
        assert until_ts is not None
        assert until_ts > world.clock.now_ts

    def test_an_ordinary_round_writes_one_report_a_sweep(self, world: World) -> None:
        for name in "abc":
            world.add(name, "x")
        assert world.run(secs=890.0).sweeps == 3
        assert [name.split()[0] for name in world.state_calls.names].count("put") == 3

    def test_a_round_uses_only_the_storage_calls_that_its_role_allows(self, world: World) -> None:
        world.add("a", "x", "d/y", late_secs=600)
        world.run()
        world.clock.advance(600)
        world.run()
        assert {name.split()[0] for name in world.file_calls.names} == {"list", "listed", "list_folders"}
        asked: dict[str, set[str]] = {}
        for name in world.state_calls.names:
            verb, _, key = name.partition(" ")
            asked.setdefault(verb, set()).add(re.sub(r"[0-9]{20}", "N", key))
        pending = "_blizzard/p_a/pending/"
        assert asked == {
            "get": {"_blizzard/p_a_checkpoint.json", "_blizzard/p_a_sweep.json", f"{pending}N.json"},
            "list": {pending},
            "listed": {f"{pending}N.json"},
            "create": {f"{pending}N.json"},
            "put": {"_blizzard/p_a_sweep.json"},
        }


class TestTopics:
    """Nothing is swept: runs see all messages. What they committed is counted."""

    def commit(self, world: World, identity: SourceIdentity, sequence: int, previous: str | None, rows: int) -> str:
        lines = [ReceiptLine("clicks/0", "id", 100, rows, 1, 0.0, finished=False)]
        receipt = Receipts(world.state, identity.state_prefix).put(
            sequence=sequence, attempt="a", previous=previous, now_ts=world.clock(), lines=lines
        )
        checkpoint = TopicCheckpoint("p", "t", sequence, receipt=receipt.name)
        world.state.put(identity.copy_key, encode_topics(checkpoint).encode())
        return receipt.name

    def test_commits_are_counted_once_from_the_first_on(self, world: World) -> None:
        identity = world.add_topics("t")
        world.run()
        first = self.commit(world, identity, 0, None, rows=5)
        world.run()
        world.run()
        self.commit(world, identity, 1, first, rows=7)
        world.run()
        assert [(counts.rows, counts.dead_records) for counts in world.published] == [(0, 0), (5, 1), (7, 1)]

    def test_a_round_without_a_commit_writes_nothing(self, world: World) -> None:
        self.commit(world, world.add_topics("t"), 0, None, rows=5)
        world.run()
        world.state_calls.names.clear()
        world.run()
        assert world.state_calls.names == ["get _blizzard/p_t_sweep.json", "get _blizzard/p_t_checkpoint.json"]

    def test_a_report_that_cannot_be_written_fails_alone(self, world: World) -> None:
        identity = world.add_topics("t")
        world.add("a", "x")
        world.topics["p:t"] = (
            world.topics["p:t"][0],
            TopicCommits(identity, DeniedWrites(world.clock), world.log.info),
        )
        done = world.run()
        assert (done.sweeps, done.failed) == (1, 1)

    def test_what_no_time_is_left_for_the_next_round_counts(self, world: World) -> None:
        identity = world.add_topics("t")
        world.run()
        self.commit(world, identity, 0, None, rows=5)
        world.run(secs=-1.0)
        world.run()
        assert [counts.rows for counts in world.published] == [0, 5]
