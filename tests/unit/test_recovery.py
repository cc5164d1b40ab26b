"""From what the table holds to the checkpoint to continue from: every case, and what must never be mistaken for it."""

from dataclasses import replace

import pytest

from blizzard.errors import LostRace, RecoveryError
from blizzard.state.checkpoint import encode
from blizzard.state.checkpoint_codec import read_copy
from blizzard.state.delta_log import Commit
from blizzard.state.identity import SourceIdentity
from spark_job.ports.source import Recovered
from tests.unit.fakes import Row, World, settings
from tests.unit.recoveries import CountingStore, recovered, three_commits


def test_an_empty_table_is_a_fresh_start() -> None:
    world = World()
    assert recovered(world) == Recovered(world.unknown())


def test_a_table_of_other_sources_is_a_fresh_start() -> None:
    world = three_commits()
    world.identity = SourceIdentity("events", "other", "_blizzard/events_other")
    assert recovered(world) == Recovered(world.unknown())


def test_the_newest_commit_has_the_checkpoint() -> None:
    world = three_commits()
    found = recovered(world)
    assert (found.checkpoint, found.repaired, found.unpublished) == (world.state_now(), False, False)


def test_commits_of_other_sources_in_between_are_skipped() -> None:
    world = three_commits()
    for version in range(4, 50):
        world.delta.commits.append(Commit(version, {"blizzard:events:other": version}, "{}", None))
    assert recovered(world).checkpoint.sequence == 2


def test_a_state_older_than_the_scan_is_found_in_the_copy() -> None:
    world = three_commits()
    world.delta.commits += [Commit(version, {}, None, None) for version in range(4, 50)]
    found = recovered(world, scan_commits=10)
    assert (found.checkpoint, found.repaired) == (world.state_now(), False)


@pytest.mark.parametrize("copy", ["older", "gone", "torn"])
def test_an_outdated_copy_is_reported_so_that_it_is_published(copy: str) -> None:
    world = three_commits()
    texts = {"older": encode(world.states()[0]), "torn": "{"}
    if copy == "gone":
        world.forget_copy()
    else:
        world.state.put(world.identity.copy_key, texts[copy].encode())
    found = recovered(world)
    assert (found.checkpoint.sequence, found.repaired, found.unpublished) == (2, False, True)


def test_a_copy_of_another_source_is_ignored() -> None:
    world = three_commits()
    foreign = encode(replace(world.state_now(), source="other"))
    world.state.put(world.identity.copy_key, foreign.encode())
    assert read_copy(world.state, world.identity) is None


@pytest.mark.parametrize("text", [None, "", "{torn", "[]", '{"schema_version": 99}'])
def test_the_copy_stands_in_for_an_unreadable_newest_commit(text: str | None) -> None:
    world = three_commits()
    state = world.state_now()
    world.delta.spoil(3, text)
    assert recovered(world) == Recovered(state)


def test_an_older_state_is_repaired_by_what_the_newer_commits_hold() -> None:
    world = three_commits()
    world.delta.spoil(3)
    world.forget_copy()
    found = recovered(world)
    assert (found.repaired, found.checkpoint.sequence) == (True, 2)
    assert dict(found.checkpoint.files) == {}
    assert found.checkpoint.position == world.states()[1].position
    assert world.ledger(found.checkpoint) == {"a.txt", "b.txt", "c.txt"}


def test_a_state_of_another_sequence_is_not_the_state_of_the_commit() -> None:
    world = three_commits()
    world.delta.spoil(3, encode(world.states()[1]))
    world.forget_copy()
    found = recovered(world)
    assert (found.repaired, found.checkpoint.sequence) == (True, 2)
    assert "c.txt" in world.ledger(found.checkpoint)


def test_an_older_copy_is_never_resumed_as_if_it_were_current() -> None:
    world = three_commits()
    for version in (1, 2, 3):
        world.delta.spoil(version)
    world.state.put(world.identity.copy_key, encode(world.states()[0]).encode())
    found = recovered(world)
    assert (found.repaired, found.checkpoint.sequence) == (True, 2)
    assert world.ledger(found.checkpoint) == {"a.txt", "b.txt", "c.txt"}


def test_without_any_readable_state_everything_is_taken_from_the_rows() -> None:
    world = three_commits()
    for version in (1, 2, 3):
        world.delta.spoil(version)
    world.forget_copy()
    found = recovered(world)
    assert (found.checkpoint.sequence, world.ledger(found.checkpoint)) == (2, {"a.txt", "b.txt", "c.txt"})
    assert world.events_logged("state_repaired")[0]["from_sequence"] is None


def test_a_repair_is_logged_before_it_queries_storage() -> None:
    world = three_commits()
    world.delta.spoil(3)
    world.forget_copy()
    world.source = CountingStore(world.source)
    world.source.before_head = lambda: world.log.append(("asked", {}))
    recovered(world)
    events = [event for event, _ in world.log]
    assert events[-3:] == ["repair_began", "asked", "state_repaired"]
    logged = world.events_logged("repair_began")[0]
    assert (logged["from_sequence"], logged["to_sequence"], logged["files"]) == (1, 2, 1)


def test_a_state_behind_many_commits_of_others_is_found() -> None:
    world = three_commits()
    world.delta.commits += [Commit(version, {}, None, None) for version in range(4, 50)]
    world.forget_copy()
    found = recovered(world, scan_commits=10)
    assert (found.repaired, found.checkpoint.sequence) == (False, 2)
    assert [event["sequence"] for event in world.events_logged("log_searched")] == [2]


def test_a_txn_that_only_the_snapshot_has_counts_too() -> None:
    world = three_commits()
    world.delta.commits += [Commit(version, {}, None, None) for version in range(4, 50)]
    world.delta.cleaned_up = 4
    world.forget_copy()
    found = recovered(world, scan_commits=10)
    assert (found.repaired, found.checkpoint.sequence, len(world.ledger(found.checkpoint))) == (True, 2, 3)


def test_a_repair_ignores_rows_of_other_sources() -> None:
    world = three_commits()
    world.delta.rows.append(Row("events:other", "foreign.txt", 0, "e", "x", 9))
    world.delta.spoil(3)
    world.forget_copy()
    assert "foreign.txt" not in recovered(world).checkpoint.files


def test_a_file_larger_than_a_batch_is_in_progress_after_its_last_row() -> None:
    world = World(settings(interval_bytes=100))
    world.arrive("large.txt", *(f"record {n:02d}" for n in range(30)))
    job = world.job()
    job.step(draining=True)
    job.step(draining=True)
    for version in (1, 2):
        world.delta.spoil(version)
        world.forget_copy()
        assert recovered(world).checkpoint.in_progress == {"large.txt": 20}


def test_a_large_file_that_is_gone_is_not_in_progress() -> None:
    world = World(settings(interval_bytes=100))
    world.arrive("large.txt", *(f"record {n:02d}" for n in range(30)))
    world.job().step(draining=True)
    world.source.delete(["large.txt"])
    world.delta.spoil(1)
    world.forget_copy()
    assert dict(recovered(world).checkpoint.files) == {}


def test_rows_without_a_txn_are_an_error_with_instructions() -> None:
    world = three_commits()
    world.delta.commits = []
    with pytest.raises(RecoveryError, match=r"no Txn of .blizzard:events:landing.*`blizzard rebuild` makes"):
        recovered(world)


def test_a_first_commit_during_recovery_is_a_lost_race() -> None:
    world = World()
    world.arrive("a.txt")
    world.calls.before_named("holds_rows", world.drain)
    with pytest.raises(LostRace, match="another job"):
        recovered(world)
