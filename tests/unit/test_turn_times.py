"""How long each part of a turn takes, as the log says."""

from blizzard.state.batch import OnOverwrite
from spark_job.loop.ingest import MAX_LAG_SEGMENTS, Step
from tests.unit.fakes import POISON, Calls, Clock, MemoryReader, World, settings


def order_of(world: World, *wanted: str) -> list[str]:
    """The calls whose name starts with one of `wanted`, in their order."""
    return [name for name in world.calls.names if name.startswith(wanted)]


PUT_COPY = "put _blizzard/events_landing_checkpoint.json"
LETTER = "put _blizzard/events_landing/dead_letters/"
RECEIPT = "put _blizzard/events_landing/receipts/"
TAKES = {
    "commits": ("recover", 1.0),
    "get _blizzard/events_landing/pending/": ("plan", 2.0),
    "prepare": ("prepare", 4.0),
    "get _blizzard/events_landing/receipts/": ("suspects", 8.0),
    "read": ("read", 16.0),
    LETTER: ("letters", 32.0),
    RECEIPT: ("receipt", 64.0),
    "append": ("commit", 128.0),
    "commit_at": ("landed", 256.0),
    PUT_COPY: ("copy", 512.0),
    "delete _blizzard/events_landing/pending/": ("trim", 1024.0),
}
"""A call of each part, and how many seconds it takes: no two sums are equal."""


class SlowCalls(Calls):
    """Calls that take seconds of the stopwatch."""

    def __init__(self, stopwatch: Clock) -> None:
        super().__init__()
        self._stopwatch = stopwatch

    def __call__(self, name: str) -> None:
        super().__call__(name)
        self._stopwatch.advance(sum(secs for start, (_, secs) in TAKES.items() if name.startswith(start)))


def slow_world() -> World:
    """Its first batch has a dead letter, a suspect, and a segment to trim."""
    world = World()
    event = world.arrive("a.txt")
    world.settle()
    world.deliver(event, world.put("b.txt", raw=POISON))
    world.arrive("c.txt")
    world.log.clear()
    world.calls = SlowCalls(world.stopwatch)
    world.reader = MemoryReader(world.source, world.dead_letters, world.identity.source_id, world.clock, world.calls)
    return world


def test_a_batch_logs_how_long_each_part_took() -> None:
    world = slow_world()
    world.job().step(draining=True)
    (committed,) = world.events_logged("batch_committed")
    segments = {"plan": 4 * 2.0, "trim": 3 * 1024.0}  # of two sweeps and two events; the newest stays
    secs = {"lookup": 0.0, "write": 0.0} | dict(TAKES.values()) | segments
    assert committed["secs"] == {**secs, "total": sum(secs.values())}


def test_time_that_tasks_spend_on_writing_does_not_count_as_reading() -> None:
    world = slow_world()
    world.reader.write_share = 0.25
    world.job().step(draining=True)
    (committed,) = world.events_logged("batch_committed")
    assert (committed["secs"]["read"], committed["secs"]["write"]) == (12.0, 4.0)


def test_a_commit_logs_whether_delta_wrote_its_own_checkpoint() -> None:
    world = World()
    for number in range(12):
        world.arrive(f"{number:02d}.txt")
        world.drain()
    logged = [committed["delta_checkpoint"] for committed in world.events_logged("batch_committed")]
    versions = [commit.version for commit in world.delta.commits if commit.txns]
    assert [version for version, made in zip(versions, logged, strict=True) if made] == [10]


def test_a_recovery_logs_how_long_it_took() -> None:
    world = slow_world()
    world.job().step(draining=True)
    (recovered,) = world.events_logged("recovered")
    assert recovered["secs"] == {
        **dict.fromkeys((*(part for part, _ in TAKES.values()), "lookup", "write"), 0.0),
        "recover": 1.0,
        "total": 1.0,
    }


def test_each_turn_is_timed_from_zero() -> None:
    world = slow_world()
    job = world.job()
    job.step(draining=True)
    world.arrive("d.txt")
    job.step(draining=True)
    first, second = (committed["secs"] for committed in world.events_logged("batch_committed"))
    assert (first["recover"], first["prepare"]) == (1.0, 4.0)
    assert (second["recover"], second["prepare"], second["suspects"], second["letters"]) == (0.0, 0.0, 0.0, 0.0)
    assert second["total"] == 2.0 + 16.0 + 64.0 + 128.0 + 256.0 + 512.0 + 1024.0


def test_a_turn_in_which_the_ledger_knows_all_suspects_logs_its_times() -> None:
    world = World()
    event = world.arrive("a.txt")
    world.settle()
    world.deliver(event)
    world.log.clear()
    world.calls = SlowCalls(world.stopwatch)
    job = world.job()
    assert [job.step(draining=True), job.step(draining=True)] == [Step.MOVED, Step.IDLE]
    (moved,) = world.events_logged("moved_on")
    secs = moved["secs"]
    assert (secs["suspects"], secs["prepare"], secs["read"], secs["commit"]) == (8.0, 0.0, 0.0, 0.0)
    assert secs["total"] == sum(value for part, value in secs.items() if part != "total")
    assert moved["source"] == "events:landing"


def test_a_turn_in_which_no_overwritten_file_can_be_read_logs_its_times() -> None:
    world = World(settings(on_overwrite=OnOverwrite.REPLACE))
    world.arrive("a.txt")
    world.settle()
    world.deliver(world.put("a.txt", raw=POISON))
    world.calls = SlowCalls(world.stopwatch)
    world.reader = MemoryReader(world.source, world.dead_letters, world.identity.source_id, world.clock, world.calls)
    world.log.clear()
    job = world.job()
    assert job.step(draining=True) is Step.MOVED
    (moved,) = world.events_logged("moved_on")
    assert (moved["secs"]["suspects"], moved["secs"]["read"], moved["secs"]["letters"]) == (8.0, 16.0, 32.0)


def test_the_times_of_a_turn_are_logged_once() -> None:
    world = slow_world()
    world.job().step(draining=True)
    assert world.events_logged("moved_on") == []
    world = World()
    event = world.arrive("a.txt")
    world.settle()
    for _ in range(MAX_LAG_SEGMENTS + 1):
        world.deliver(event)
    world.log.clear()
    assert world.job().step(draining=True) is Step.COMMITTED
    assert (len(world.events_logged("batch_committed")), world.events_logged("moved_on")) == (1, [])


def test_a_turn_that_neither_looks_anything_up_nor_commits_logs_nothing() -> None:
    world = World()
    world.arrive("a.txt")
    job = world.job()
    job.step(draining=True)
    world.clock.advance(100)
    world.sweep()
    world.log.clear()
    assert [job.step(draining=True), job.step(draining=True)] == [Step.MOVED, Step.IDLE]
    assert world.log == []


def test_a_lost_race_logs_its_times_and_asks_for_no_snapshot() -> None:
    world = World()
    world.arrive("old.txt")
    world.drain()
    world.arrive("a.txt")
    world.calls.names.clear()
    world.delta.before_commit = lambda: (world.stopwatch.advance(7.0), world.drain())
    job = world.job()
    assert job.step(draining=True) is Step.LOST
    (lost,) = world.events_logged("race_lost")
    assert (lost["secs"]["commit"], lost["secs"]["copy"], lost["secs"]["total"]) == (7.0, 0.0, 7.0)
    assert order_of(world, "txn_version") == []
