"""A source with many partitions: recovery with bases, and what happens when they are lost."""

import json

import pytest

from blizzard.cli.source_status import SourceStatus, source_status
from blizzard.errors import RecoveryError, StorageUnavailable
from blizzard.state.checkpoint_codec import BaseSettings, read_copy
from blizzard.state.delta_log import Commit
from tests.unit.fakes import Crash, World, crash, settings
from tests.unit.recoveries import recovered
from tests.unit.scenarios import lines
from tests.unit.test_takeover import PENGUINS, put_file

ALL = [f"p{n}/{name}.txt" for n in range(6) for name in "abc"]


def world(max_commit_bytes: int) -> World:
    """Its checkpoints have bases once there are a few watermarks, always if `max_commit_bytes` is 0. The bases are
    renewed every few commits."""
    return World(settings(bases=BaseSettings(max_commit_bytes, 3), settle_delay_secs=0.0))


def ingest(world: World, *paths: str) -> None:
    """One commit for each file. The next one has the marks of the sweep after it."""
    for path in paths:
        world.arrive(path)
        world.drain()
        world.clock.advance(1)
        world.sweep()


def filled(*, max_commit_bytes: int = 130) -> World:
    lake = world(max_commit_bytes)
    ingest(lake, *ALL[:-1])
    assert lake.bases()
    assert lake.state_now().bases
    return lake


def lose(world: World, *keys: str) -> None:
    world.state.delete(keys or world.bases())


def bases_of(world: World, version: int) -> set[str]:
    document = json.loads(world.delta.commits[version].user_metadata or "{}")
    return {world.identity.bases_folder + name for name, _ in document.get("bases", [])}


def all_is_there(world: World) -> None:
    """Whatever happened: one more file, all events and sweeps again, and every row is there once."""
    ingest(world, ALL[-1])
    world.deliver(*(world.source_event(path) for path in ALL))
    world.settle()
    assert world.files() == lines(*ALL)
    assert world.doubled() == []
    assert recovered(world).checkpoint == world.state_now()


def put_log(world: World) -> None:
    """The newest commit, in the table's log."""
    commit = world.delta.commits[-1]
    (txn,) = commit.txns.items()
    info = {"commitInfo": {"timestamp": 0, "userMetadata": commit.user_metadata}}
    actions = [info, {"txn": {"appId": txn[0], "version": txn[1]}}]
    text = "\n".join(map(json.dumps, actions))
    world.state.put(f"_delta_log/{commit.version:020d}.json", text.encode())


def status(world: World) -> SourceStatus:
    return source_status(
        world.state,
        pipeline="events",
        source="landing",
        state_prefix=world.identity.state_prefix,
        table_uri="memory://lake/",
        now_ts=world.clock(),
    )


def test_recovery_reads_the_newest_state_through_its_bases() -> None:
    lake = filled()
    found = recovered(lake)
    assert (found.checkpoint, found.repaired, found.unpublished) == (lake.state_now(), False, False)
    assert len({key for version in range(len(lake.delta.commits)) for key in bases_of(lake, version)}) > 1
    all_is_there(lake)


def test_the_copy_has_the_text_of_the_commit_and_sweeps_read_it() -> None:
    lake = filled()
    assert lake.state.get(lake.identity.copy_key).decode() == lake.delta.commits[-1].user_metadata
    assert read_copy(lake.state, lake.identity) == lake.state_now()
    assert lake.source_sweep().checkpoint() == lake.state_now()


def test_a_state_whose_base_is_lost_is_repaired_from_the_newest_one_that_can_be_read() -> None:
    lake = filled()
    newest = len(lake.delta.commits) - 1
    older = max(version for version in range(newest) if not bases_of(lake, version) & bases_of(lake, newest))
    lose(lake, *bases_of(lake, newest))
    rows, found = len(lake.delta.rows), recovered(lake)
    assert found.repaired
    (unreadable,) = lake.events_logged("state_unreadable")
    assert unreadable["sequence"] == newest - 1
    assert "is missing" in str(unreadable["error"])
    (repaired,) = lake.events_logged("state_repaired")
    assert repaired["from_sequence"] == older - 1
    assert found.checkpoint.sequence == newest - 1
    assert found.checkpoint.bases == ()
    all_is_there(lake)
    assert len(lake.delta.rows) == rows + 2


def test_without_any_base_the_state_is_repaired_from_all_rows() -> None:
    lake = filled(max_commit_bytes=0)
    lose(lake)
    assert recovered(lake).repaired
    (repaired,) = lake.events_logged("state_repaired")
    assert repaired["from_sequence"] is None
    assert repaired["files_added"] == len(ALL) - 1
    all_is_there(lake)


@pytest.mark.parametrize("harm", [b"", b"{}", b"\x1f\x8b torn"])
def test_a_base_that_is_damaged_is_as_good_as_lost(harm: bytes) -> None:
    lake = filled()
    for key in lake.bases():
        lake.state.put(key, harm)
    assert recovered(lake).repaired
    all_is_there(lake)


def test_an_older_state_is_never_taken_for_the_current_one() -> None:
    lake = filled()
    current = lake.state_now()
    lose(lake, *bases_of(lake, len(lake.delta.commits) - 1))
    found = recovered(lake).checkpoint
    assert lake.ledger(found) == {*ALL[:-1]}
    assert found.sequence == current.sequence


def test_storage_that_does_not_answer_is_no_lost_base() -> None:
    lake = filled()

    def broken() -> None:
        raise StorageUnavailable("no answer")

    lake.arrive(ALL[-1])
    (key, *_) = bases_of(lake, len(lake.delta.commits) - 1)
    lake.calls.before_named(f"get {key}", broken)
    lake.drain()
    assert len(lake.slept_secs) == 1
    assert lake.events_logged("state_repaired") == []
    all_is_there(lake)


def test_a_crash_at_any_moment_leaves_a_state_that_can_be_read() -> None:
    n, died = 0, True
    while died:
        lake, n, died = filled(), n + 1, False
        lake.arrive(ALL[-1])
        lake.calls.before(n, crash)
        try:
            lake.drain()
        except Crash:
            died = True
        lake.calls.forget()
        assert not recovered(lake).repaired
        if n % 5 == 0:
            all_is_there(lake)
    assert n > 15


def test_of_two_jobs_that_write_a_base_for_the_same_commit_one_wins_and_the_other_goes_on() -> None:
    lake = filled()
    for n in range(1, 60):
        lake = filled()
        lake.arrive(ALL[-1])
        lake.calls.before(n, lambda lake=lake: lake.job().drain())  # type: ignore[misc]
        lake.drain()
        lake.calls.forget()
        assert not recovered(lake).repaired
        assert lake.doubled() == []
        assert lake.events_logged("state_repaired") == []
    all_is_there(lake)


def test_a_job_that_goes_on_after_another_one_uses_the_bases_of_the_other() -> None:
    lake = filled()
    one, other = lake.job(), lake.job()
    for n, path in enumerate(f"q{n}/a.txt" for n in range(8)):
        lake.arrive(path)
        (one if n % 2 else other).drain()
        assert not recovered(lake).repaired
    lake.settle()
    assert lake.doubled() == []
    assert len(lake.files()) == len(ALL) - 1 + 8


# The copy


def test_a_copy_that_names_a_deleted_base_only_lets_a_sweep_find_files_that_are_known() -> None:
    lake = filled()
    stale = lake.state.get(lake.identity.copy_key)
    lake.clock.advance(10_000)
    ingest(lake, *(f"q{n}/a.txt" for n in range(12)))
    lake.state.put(lake.identity.copy_key, stale)
    named = {lake.identity.bases_folder + name for name, _ in json.loads(stale)["bases"]}
    lose(lake, *named)
    assert lake.source_sweep().checkpoint() == lake.unknown()
    assert lake.sweep().missed > 0
    before = len(lake.delta.rows)
    lake.drain()
    assert len(lake.delta.rows) == before
    found = recovered(lake)
    assert not found.repaired


def test_a_table_behind_its_copy_is_noticed_even_if_a_base_of_the_copy_is_lost() -> None:
    lake = filled()
    backup = ([*lake.delta.commits], [*lake.delta.rows])
    ingest(lake, "p0/d.txt", ALL[-1])
    lose(lake, *bases_of(lake, len(lake.delta.commits) - 1))
    lake.delta.commits[:], lake.delta.rows[:] = backup
    lake.drain()
    assert len(lake.events_logged("table_behind")) == 1
    lake.settle()
    assert lake.files() == lines(*ALL, "p0/d.txt")
    assert lake.doubled() == []


def test_a_table_made_again_gets_all_files_even_if_the_bases_are_lost() -> None:
    lake = filled()
    lose(lake)
    lake.delta.commits.clear()
    lake.delta.rows.clear()
    lake.sweep()
    lake.drain()
    assert len(lake.events_logged("table_behind")) == 1
    lake.settle()
    assert lake.files() == lines(*ALL[:-1])


# What an operator sees


def test_the_status_reads_bases_and_says_which_one_is_missing() -> None:
    lake = filled()
    put_log(lake)
    assert status(lake).partition_watermarks == dict(lake.state_now().partition_watermarks)
    assert status(lake).problem is None
    lose(lake)
    assert "is missing; the next run repairs it from the table" in str(status(lake).problem)


def test_each_base_that_is_written_is_logged() -> None:
    lake = filled()
    logged = {str(fields["base"]) for fields in lake.events_logged("base_written")}
    assert {lake.identity.bases_folder + name for name in logged} == {*lake.calls.bases}


def test_a_running_job_that_finds_its_base_gone_writes_it_anew() -> None:
    lake = filled()
    job = lake.job()
    lake.arrive("q/a.txt")
    job.drain()
    lose(lake)
    for path in ("q/b.txt", "q/c.txt"):
        lake.clock.advance(700)
        lake.arrive(path)
        job.drain()
    assert not recovered(lake).repaired
    all_is_there_with = {*ALL[:-1], "q/a.txt", "q/b.txt", "q/c.txt"}
    assert lake.files().keys() == all_is_there_with


def test_rows_that_a_user_deleted_stay_deleted_when_all_bases_are_lost() -> None:
    lake = filled(max_commit_bytes=0)
    gone = ALL[0]
    lake.delta.rows[:] = [row for row in lake.delta.rows if row.path != gone]
    lose(lake)
    lake.deliver(lake.source_event(gone))
    lake.settle()
    assert gone not in lake.files()
    assert lake.events_logged("ledger_rebuilding") == []
    assert {event["missing_commits"] for event in lake.events_logged("ledger_opened")} == {0}


def taken_over() -> World:
    """A table of the first Blizzard, whose rows do not name their files, with bases."""
    lake = world(0)
    lake.put("p/m.txt", "p/m.txt 0")
    lake.delta.commits = [Commit(0, {}, None, 1.0), Commit(1, {PENGUINS: 1}, None, 2.0)]
    lake.delta.rows_of_nobody = True
    lake.clock.advance(300_000)
    watermark = {"state": "Active", "value": "p/m.txt"}
    put_file(lake, watermark=watermark, partition_watermarks={"p": "m.txt"}, last_update_ts=lake.clock())
    lake.clock.advance(10)
    ingest(lake, "p/x.txt", "q/a.txt")
    assert lake.state_now().bases
    assert "p/m.txt" not in lake.files()
    return lake


def test_a_table_that_was_taken_over_is_refused_without_its_bases_until_they_are_back() -> None:
    lake = taken_over()
    kept = {key: lake.state.get(key) for key in lake.bases()}
    lose(lake)
    versions = len(lake.delta.commits)
    with pytest.raises(RecoveryError, match="held the only record of which files the first Blizzard ingested"):
        lake.drain()
    assert len(lake.delta.commits) == versions
    for key, data in kept.items():
        lake.state.put(key, data)
    lake.settle()
    assert "p/m.txt" not in lake.files()
    assert lake.doubled() == []


def test_a_source_of_an_earlier_version_whose_rows_all_name_their_files_is_repaired_without_its_bases() -> None:
    lake = taken_over()
    lake.delta.rows_of_nobody = False
    lose(lake)
    lake.drain()
    assert lake.state_now().before_ledger_ts is not None
