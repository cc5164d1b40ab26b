"""Batches that change the schema of their table: a commit of its own, then the batch again; whatever happens in
between, each value that a column is for gets into its column, once."""

import pytest

from blizzard.errors import StorageUnavailable
from blizzard.state.schema_changes import ChangeRecord, ChangeRecords
from blizzard.storage.base import ObjectInfo
from spark_job.loop.evolution import MAX_CHANGES_OF_A_BATCH
from spark_job.loop.ingest import Step
from tests.unit.fakes import Crash, World, crash, settings
from tests.unit.memory_reader import fields_of


def new_fields(world: World) -> None:
    """Fields that come one after the other, some of them late, and a file that is larger than a batch."""
    world.arrive("a.txt", "1 +x", "2", "3 +x +y")
    world.deliver(world.put("large.txt", *(f"record {n} +z{n // 8}" for n in range(20))))
    world.drain()
    world.put("b.txt", "4 +x +w")
    world.clock.advance(100)
    world.sweep()
    world.drain()


def world_of_new_fields() -> World:
    return World(settings(interval_bytes=60, interval_files=2))


def records(world: World) -> list[ChangeRecord]:
    return [*ChangeRecords(world.state, world.identity.state_prefix, world.identity.source_id).all()]


def check(world: World) -> None:
    """Each value has its column, and the history has each column once."""
    assert world.doubled() == []
    assert {path: len(values) for path, values in world.files().items()} == {"a.txt": 3, "large.txt": 20, "b.txt": 1}
    assert all(fields_of(row.value) <= row.columns for row in world.delta.rows)
    assert world.delta.columns == {"x", "y", "z0", "z1", "z2", "w"}
    landed = [field.path for record in records(world) if record.landed for field in record.change.fields]
    assert sorted(landed) == sorted(world.delta.columns)
    for record in records(world):
        if record.landed:
            assert record.version is not None
            assert world.delta.commits[record.version].txns == {world.identity.app_id: record.sequence}


def test_a_new_field_is_a_column_before_the_rows_are_committed() -> None:
    world = world_of_new_fields()
    world.arrive("a.txt", "1 +x", "2")
    job = world.job()
    assert [job.step(draining=True) for _ in range(2)] == [Step.COMMITTED, Step.COMMITTED]
    first, second = world.delta.commits[-2:]
    assert world.delta.columns == {"x"}
    assert [row.sequence for row in world.delta.rows] == [1, 1]
    assert (first.txns, second.txns) == ({world.identity.app_id: 0}, {world.identity.app_id: 1})
    assert [batch.discarded for batch in world.reader.batches] == [True, False]
    assert all(batch.released for batch in world.reader.batches)


def test_the_batch_is_read_again_at_once_though_it_is_not_full() -> None:
    world = World(settings(interval_secs=60))
    world.arrive("a.txt", "1 +x")
    job = world.job()
    world.clock.advance(61)
    assert [job.step(draining=False) for _ in range(3)] == [Step.COMMITTED, Step.COMMITTED, Step.IDLE]


def test_the_history_says_what_changed_and_which_record_brought_it() -> None:
    world = world_of_new_fields()
    world.arrive("a.txt", "1", "2 +x")
    world.drain()
    (record,) = records(world)
    (field,) = record.change.fields
    assert (field.path, field.type, field.was, field.records, field.file) == ("x", "string", None, 1, "a.txt")
    assert (record.landed, record.sequence, record.version) == (True, 0, 1)
    (said,) = world.events_logged("schema_changed")
    assert (said["version"], said["added"], said["fields"]) == (1, 1, [field.as_document()])


def test_a_crash_between_any_two_calls_loses_no_value_and_no_column() -> None:
    world = world_of_new_fields()
    new_fields(world)
    check(world)
    count = world.calls.count
    assert world.calls.names.count("change_schema") > 3
    for n in range(1, count + 1):
        world = world_of_new_fields()
        world.calls.before(n, crash)
        with pytest.raises(Crash):
            new_fields(world)
        new_fields(world)
        world.settle()
        check(world)


@pytest.mark.parametrize("fault", ["lost", "answer lost"])
def test_a_change_of_which_no_answer_comes_is_made_once(fault: str) -> None:
    for fails_at in range(4):
        world = world_of_new_fields()
        world.delta.faults = [*[""] * fails_at, fault]
        new_fields(world)
        check(world)


def test_a_job_that_has_lost_the_race_changes_nothing() -> None:
    """The other one has other files, without the new field."""
    world = world_of_new_fields()
    world.arrive("a.txt", "1 +x")
    job = world.job()

    def win() -> None:
        world.source.delete(["a.txt"])
        world.arrive("a.txt", "1")
        world.drain()

    world.delta.before_commit = win
    assert job.step(draining=True) is Step.LOST
    assert world.delta.columns == set()
    assert not any(record.landed for record in records(world))
    job.drain()
    assert world.delta.columns == set()


def test_two_jobs_that_add_the_same_column_at_once_end_with_one() -> None:
    world = world_of_new_fields()
    world.arrive("a.txt", "1 +x")
    job = world.job()
    world.delta.before_commit = world.drain
    totals = job.drain()
    assert (totals.lost_races, totals.rows) == (1, 0)
    assert world.delta.columns == {"x"}
    assert [record.landed for record in records(world)].count(True) == 1
    assert world.doubled() == []


def test_rows_that_were_read_before_another_job_has_added_their_column_are_read_again() -> None:
    world = world_of_new_fields()
    world.arrive("a.txt", "1 +x")
    world.calls.before_named("propose_change", lambda: setattr(world.delta, "columns", frozenset({"x"})))
    world.drain()
    assert [row.columns for row in world.delta.rows] == [{"x"}]
    assert records(world) == []


def test_a_batch_that_always_has_another_field_is_committed_at_last() -> None:
    """As if its file changed each time that it is read."""
    world = world_of_new_fields()
    world.arrive("a.txt", "1 +x0")
    job, times = world.job(), 0
    while job.step(draining=True) is Step.COMMITTED and not world.delta.rows:
        times += 1
        assert times <= MAX_CHANGES_OF_A_BATCH, "no end in sight"
        world.source.put("a.txt", f"1 +x{times}\n".encode())
    assert times == MAX_CHANGES_OF_A_BATCH
    (refused,) = world.events_logged("schema_not_changed")
    assert refused["fields"] == [{"path": f"x{times}", "reason": f"the batch has changed the table {times} times"}]


def test_a_history_that_cannot_be_written_after_the_commit_is_completed_by_the_next_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(settings(interval_files=1))
    world.arrive("a.txt", "1 +x")
    world.arrive("b.txt", "1 +y")
    put = world.state.put

    def refuse(key: str, data: bytes) -> ObjectInfo:
        if b'"landed":true' in data:
            raise StorageUnavailable("503")
        return put(key, data)

    with monkeypatch.context() as patch:
        patch.setattr(world.state, "put", refuse)
        world.drain()
    assert world.delta.columns == {"x", "y"}
    assert not any(record.landed for record in records(world))
    assert world.events_logged("publish_failed")
    world.drain()
    assert [(record.landed, record.change.fields[0].path) for record in records(world)] == [(True, "x"), (True, "y")]


def test_who_dies_while_the_history_is_completed_leaves_the_way_to_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(settings(interval_files=1))
    world.arrive("a.txt", "1 +x")
    world.arrive("b.txt", "1 +y")
    put = world.state.put

    def refuse(key: str, data: bytes) -> ObjectInfo:
        if b'"landed":true' in data:
            raise StorageUnavailable("503")
        return put(key, data)

    def die_afterwards(key: str, data: bytes) -> ObjectInfo:
        put(key, data)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(world.state, "put", refuse)
        world.drain()
        patch.setattr(world.state, "put", lambda *written: die_afterwards(*written))
        with pytest.raises(Crash):
            world.drain()
    assert [record.landed for record in records(world)] == [True, False]
    world.drain()
    assert [record.landed for record in records(world)] == [True, True]
