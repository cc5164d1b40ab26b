"""When runs of the ledger that others replace are deleted: not while anybody may still read them."""

from collections.abc import Callable
from dataclasses import replace

from blizzard.errors import NotFound
from blizzard.ledger.keeper import KEPT_AFTER_RESTART_SECS, KEPT_SECS, LedgerKeeper
from blizzard.ledger.ledger import RunUnreadable
from blizzard.ledger.merge import LedgerSettings, Merge, MergeInput
from blizzard.ledger.run import Run
from tests.unit.ledger_world import FOLDER, SMALL, LedgerWorld, filled


def test_a_run_that_was_merged_is_deleted_an_hour_later() -> None:
    world = filled(4)
    world.now_ts += 5 * KEPT_SECS  # the age of the run itself does not count
    keeper = world.keeper()
    for n in range(8):
        world.commit(keeper, {f"g{n}": "1"})
    named = {ref.name for ref in world.checkpoint.ledger}
    assert set(world.runs()) > named
    keeper.clean(world.checkpoint)
    assert set(world.runs()) > named
    world.now_ts += KEPT_SECS + 1
    keeper.clean(world.checkpoint)
    waiting = {keeper._merge.run.ref.name} if keeper._merge is not None and keeper._merge.run is not None else set()
    assert set(world.runs()) == named | waiting


NO_MERGES = LedgerSettings(commits=1000, factor=1000, in_background=False, parallel_reads=1)


def named(world: LedgerWorld) -> set[str]:
    return {ref.name for ref in world.checkpoint.ledger}


def commit_until(keeper: LedgerKeeper, world: LedgerWorld, happened: Callable[[], bool]) -> None:
    for _ in range(50):
        if happened():
            return
        world.commit(keeper, {f"m{world.checkpoint.sequence}": "1"})
        keeper.clean(world.checkpoint)
    raise AssertionError("it did not happen in 50 commits")


def keeper_with_ended_merge(world: LedgerWorld) -> LedgerKeeper:
    """Its next commit names a run that was merged from runs."""
    keeper = world.keeper()
    commit_until(keeper, world, lambda: keeper._merge is not None and bool(keeper._merge.source.runs))
    assert keeper._merge is not None
    assert keeper._merge.run is not None
    return keeper


def test_the_hour_of_a_merged_run_begins_with_the_commit_that_names_the_other_one() -> None:
    """Merges end at once, but in a job that goes on the next commit may come hours later."""
    world = LedgerWorld()
    keeper = keeper_with_ended_merge(world)
    before = named(world)
    world.now_ts += 30 * 24 * KEPT_SECS
    world.commit(keeper, {"after the quiet time": "1"})
    keeper.clean(world.checkpoint)
    superseded = before - named(world)
    assert superseded
    assert superseded <= {*world.runs()}
    world.now_ts += KEPT_SECS - 1
    keeper.clean(world.checkpoint)
    assert superseded <= {*world.runs()}
    world.now_ts += 2
    keeper.clean(world.checkpoint)
    assert superseded.isdisjoint(world.runs())


def test_a_new_process_does_not_know_when_a_run_was_superseded_and_waits_an_hour_of_its_own() -> None:
    world = LedgerWorld()
    keeper = keeper_with_ended_merge(world)
    before = named(world)
    world.now_ts += 5 * KEPT_SECS
    world.commit(keeper, {"after the quiet time": "1"})
    superseded = before - named(world)
    world.settings = NO_MERGES
    keeper = world.keeper()
    for secs, left in ((60.0, True), (KEPT_SECS - 1, True), (2.0, False)):
        world.now_ts += secs
        world.commit(keeper, {f"after {secs}": "1"})
        keeper.clean(world.checkpoint)
        assert superseded.isdisjoint(world.runs()) is not left


def test_processes_that_end_after_one_commit_delete_merged_runs_a_day_later() -> None:
    world = LedgerWorld()
    for number in range(400):
        world.now_ts += KEPT_SECS / 4
        keeper = world.keeper()
        world.commit(keeper, {f"{number}": "1"})
        keeper.clean(world.checkpoint)
    assert number * KEPT_SECS / 4 > 4 * KEPT_AFTER_RESTART_SECS
    times = [info.modified_ts for info in world.store.list(FOLDER) if info.key.removeprefix(FOLDER) not in named(world)]
    assert min(times) >= world.now_ts - 2 * KEPT_AFTER_RESTART_SECS
    assert world.found(world.keeper()) == world.expected


def test_a_run_that_an_older_table_version_does_not_name_is_kept_for_an_hour() -> None:
    """The table was restored, or another job has taken over from an older state."""
    world = LedgerWorld(replace(SMALL, factor=100))
    keeper = world.keeper()
    commit_until(keeper, world, lambda: len(world.checkpoint.ledger) == 1)
    older = world.checkpoint
    commit_until(keeper, world, lambda: len(world.checkpoint.ledger) == 3)
    newer = named(world) - {ref.name for ref in older.ledger}
    world.now_ts += 30 * 24 * KEPT_SECS
    world.commit(keeper, {"before the restore": "1"})
    assert len(newer & named(world)) == 2
    keeper.forget()
    keeper.clean(older)
    assert newer <= {*world.runs()}
    world.now_ts += KEPT_SECS + 1
    keeper.clean(older)
    assert newer.isdisjoint(world.runs())


def test_a_run_that_was_merged_by_another_job_is_not_missed() -> None:
    world = filled(4)
    keeper = world.keeper()
    keeper.find(world.checkpoint, ["new"])
    ref = replace(world.checkpoint.ledger[0], id="merged")

    def write(source: MergeInput) -> Run:
        raise RunUnreadable(ref, NotFound(ref.name))

    assert keeper._ledger is not None
    keeper._merge = Merge(MergeInput(runs=keeper._ledger.runs), write, in_background=False)
    world.commit(keeper, {"g": "1"})
    assert len(world.events("ledger_merge_failed")) == 1
    assert not world.events("ledger_run_unreadable")
    assert world.found(keeper) == world.found(world.keeper()) == world.expected


def test_a_run_that_waits_for_its_first_commit_is_not_deleted() -> None:
    world = filled(4)
    keeper = world.keeper()
    while keeper._merge is None:
        world.commit(keeper, {f"m{world.checkpoint.sequence}": "1"})
    assert keeper._merge.run is not None
    world.now_ts += 5 * KEPT_SECS
    keeper.clean(world.checkpoint)
    assert keeper._merge.run.ref.name in world.runs()
