"""Every state of small worlds is sound, and a world that is broken on purpose is found."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import spark_job.loop.files.source
from blizzard.storage.memory import MemoryStore
from tests.proof.breaks import (
    LATE_LETTERS,
    MARKS_ALONE,
    NO_LOOK,
    NO_TXN,
    OLDER_STATE,
    TXN_NOT_COMPARED,
    UNCONDITIONAL_PUT,
    WIPED_BELIEVED,
)
from tests.proof.campaign import Budget, Failed, Run
from tests.proof.interleavings.campaign import CAMPAIGN, IN_PART, WHOLE, WORLDS, Explorable, SmallWorlds
from tests.proof.interleavings.explore import explore, smallest
from tests.proof.interleavings.processes import Actor
from tests.proof.interleavings.variants import VARIANTS
from tests.proof.interleavings.worlds import Bounds, SmallWorld

WHERE = {
    UNCONDITIONAL_PUT: Explorable(Bounds(2, 0, 1), 0, 1),
    TXN_NOT_COMPARED: Explorable(Bounds(1, 0, 2), 0, 1),
    OLDER_STATE: Explorable(Bounds(1, 0, 2), 0, 1),
    MARKS_ALONE: Explorable(Bounds(2, 1, 1), 0, 0),
    NO_LOOK: Explorable(Bounds(1, 0, 1), 0, 0, 1),
    NO_TXN: Explorable(Bounds(1, 0, 1), 0, 0),
    LATE_LETTERS: Explorable(Bounds(1, 0, 1), 1, 0),
    WIPED_BELIEVED: Explorable(Bounds(2, 1, 1, wipers=1), 0, 1),
}
"""The smallest world in which each fault shows: who races for a segment's number, who for a commit, and so on."""
TRIED = {CAMPAIGN.name: frozenset(WHERE)}


def campaign_of(folder: Path, *worlds: Explorable, variant: str = "") -> Run:
    run = Run(1, Budget(time.monotonic, len(worlds)), folder, variant)
    SmallWorlds(worlds).run(run)
    return run


@pytest.mark.parametrize(
    ("world", "states"),
    [
        (Explorable(Bounds(2, 0, 1), 1), 500),
        (Explorable(Bounds(1, 1, 1, bad=True), 1), 1_000),
        (Explorable(Bounds(1, 0, 2), 1), 5_000),
        (Explorable(Bounds(1, 0, 1, wipers=1), 1), 300),
        (Explorable(Bounds(0, 1, 2, stale=True), 1), 5_000),
        (Explorable(Bounds(1, 0, 1), 2, None, 2), 3_500),
        (Explorable(Bounds(0, 2, 1), 1, None, 1), 30_000),
        (Explorable(Bounds(0, 0, 2, late=1), 1), 10_000),
        (Explorable(Bounds(1, 0, 1, stale=True, late=1), 1), 5_000),
        (Explorable(Bounds(1, 1, 1, folders=True), 1), 5_000),
        (Explorable(Bounds(1, 0, 2, merged=True), 1), 20_000),
        (Explorable(Bounds(1, 1, 1, folders=True, merged=True), 1), 5_000),
    ],
    ids=str,
)
def test_every_state_follows_the_rules(world: Explorable, states: int, tmp_path: Path) -> None:
    run = campaign_of(tmp_path, world)
    assert run.counts["worlds explored whole"] == 1
    assert (run.counts["answers lost"] > 100) == (world.lost > 0)
    assert run.counts["states"] == run.counts[WHOLE.format(world)] > states
    assert run.counts["deaths"] > 1


def test_a_merged_ledger_is_written_read_and_deleted_by_those_at_work(tmp_path: Path) -> None:
    """The history has run 0; a job adds run 1, merges both, and deletes what was merged."""
    calls: set[tuple[str, tuple[int, ...]]] = set()
    with pytest.MonkeyPatch.context() as patched:
        for name in ("put", "get_range", "delete"):
            patched.setattr(MemoryStore, name, _noting(getattr(MemoryStore, name), name, calls))
        campaign_of(tmp_path, Explorable(Bounds(1, 1, 1, merged=True), 1))
    assert {("put", (0, 0)), ("put", (1, 1)), ("put", (0, 1)), ("get_range", (0, 0)), ("delete", (0, 0))} <= calls


def _noting(whole: Any, name: str, calls: set[tuple[str, tuple[int, ...]]]) -> Any:
    def noting(store: MemoryStore, keys: str | list[str], *args: Any) -> Any:
        taken = [keys] if isinstance(keys, str) else [*keys]
        runs = [key.rpartition("/")[2] for key in taken if "/ledger/" in key]
        calls.update((name, tuple(int(number) for number in run.split("-")[:2])) for run in runs)
        return whole(store, keys if isinstance(keys, str) else taken, *args)

    return noting


def test_a_stale_sweeper_does_not_read_the_state() -> None:
    first = {}
    for stale in (False, True):
        (actor,) = map(Actor, SmallWorld(Bounds(0, 1, 0, stale=stale)).workers)
        first[stale] = actor.first.call.text if actor.first.call else ""
        actor.close()
    assert first[False].endswith("_checkpoint.json")
    assert first[True].startswith("list ")
    assert str(Bounds(0, 1, 2, stale=True)) == "0 collectors, 1 stale sweepers, 2 jobs"


def test_the_world_with_all_processes_comes_early_and_must_be_complete() -> None:
    everybody = [world for world in WORLDS if world.bounds == Bounds(2, 2, 2)]
    needed = {str(world) for world in everybody if WHOLE.format(world) in CAMPAIGN.wanted}
    assert needed == {str(Explorable(Bounds(2, 2, 2), *few)) for few in ((0, 0), (2, 0), (0, 1), (0, 0, 1))}
    assert {WHOLE.format(world) for world in WORLDS} >= {*CAMPAIGN.wanted}
    last = max(number for number, world in enumerate(WORLDS) if WHOLE.format(world) in CAMPAIGN.wanted)
    assert last < min(WORLDS.index(Explorable(bounds, 2)) for bounds in (Bounds(2, 1, 1), Bounds(1, 1, 2)))


def test_the_product_code_is_restored_after_a_variant(tmp_path: Path) -> None:
    before = spark_job.loop.files.source.recover
    with pytest.raises(Failed, match=r"^doubled: "):
        campaign_of(tmp_path, Explorable(Bounds(1, 0, 1), 1, 0), variant=OLDER_STATE)
    assert spark_job.loop.files.source.recover is before


def test_a_world_that_ran_out_of_time_is_reported_as_partly_explored(tmp_path: Path) -> None:
    run = Run(1, Budget(time.monotonic, 1, until_ts=0.0), tmp_path)
    world = Explorable(Bounds(2, 1, 1), 2)
    SmallWorlds((world,)).run(run)
    assert run.counts["worlds explored in part"] == 1
    assert run.counts[IN_PART.format(world)] == run.counts["states"] > 0
    assert WHOLE.format(world) not in run.counts


@pytest.mark.parametrize("variant", sorted(WHERE))
def test_each_variant_broken_on_purpose_is_found(variant: str, tmp_path: Path) -> None:
    with pytest.raises(Failed) as failed:
        campaign_of(tmp_path, WHERE[variant], variant=variant)
    assert CAMPAIGN.variants[variant].finds(failed.value.why), failed.value.why
    assert len(failed.value.steps) > 5


def test_a_fault_that_needs_a_kill_is_not_found_without_one() -> None:
    make = partial(SmallWorld, Bounds(1, 0, 1), VARIANTS[LATE_LETTERS])
    assert explore(make).complete
    found = smallest(make, crashes=1)
    assert found is not None
    assert [step for step in found.steps if " dies " in step] == [found.steps[-1]]
    assert found.steps[-1].startswith("job 1: dies before put _blizzard/events_landing/dead_letters/")


def test_a_fault_that_needs_a_lost_response_is_not_found_without_one() -> None:
    make = partial(SmallWorld, Bounds(1, 0, 1), VARIANTS[NO_LOOK])
    assert explore(make, crashes=1).complete
    found = smallest(make, crashes=0, lost_answers=1)
    assert found is not None
    lost = [step for step in found.steps if step.endswith(", and no answer comes")]
    assert [step.partition(" ")[2] for step in lost] == ["1: table append, which is done, and no answer comes"]


@pytest.mark.parametrize(("bounds", "lost"), [(Bounds(1, 1, 1), 0), (Bounds(1, 0, 1), 2)], ids=str)
def test_the_reduced_orders_lead_to_the_same_end_states(bounds: Bounds, lost: int) -> None:
    """The same contents, each led to a good end with the same collectors ended."""
    found = []
    for fewer in (True, False):
        world = SmallWorld(bounds)
        ends = set()

        def finish(ended: frozenset[str], world: SmallWorld = world, ends: set[object] = ends) -> None:
            ends.add((world.keep()[0], ended))

        world.finish = finish  # type: ignore[method-assign]
        explored = explore(lambda world=world: world, crashes=1, lost_answers=lost, fewer=fewer)  # type: ignore[misc]
        found.append((ends, explored.states))
    (few, states), (all_, all_states) = found
    assert few == all_
    assert states <= all_states - (not lost)


def test_the_steps_to_a_fault_are_readable_and_repeatable() -> None:
    make = partial(SmallWorld, Bounds(2, 0, 0), VARIANTS[UNCONDITIONAL_PUT])
    found, again = smallest(make, crashes=0), smallest(make, crashes=0)
    assert found is not None
    assert again is not None
    assert again.steps == found.steps
    assert any(step.startswith("collector 1: create _blizzard/events_landing/pending/") for step in found.steps)
