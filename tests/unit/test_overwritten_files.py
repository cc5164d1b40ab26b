"""Files that are overwritten before or after they were ingested."""

import pytest

from blizzard.state.batch import OnOverwrite
from tests.unit.fakes import POISON, World, settings
from tests.unit.scenarios import lines


def test_a_file_that_is_overwritten_before_it_is_read_is_ingested_with_its_new_content() -> None:
    world = World()
    world.arrive("a.txt", "old")
    world.arrive("a.txt", "new")
    world.drain()
    assert world.files() == {"a.txt": ["new"]}


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(
    ("policy", "rows", "dead"),
    [("ignore", ["old", "older"], False), ("dead_letter", ["old", "older"], True), ("replace", ["new"], False)],
)
def test_a_file_that_is_overwritten_after_it_was_ingested(
    policy: str, rows: list[str], dead: bool, settled: bool
) -> None:
    world = World(settings(on_overwrite=OnOverwrite(policy)))
    world.arrive("a.txt", "old", "older")
    world.settle() if settled else world.drain()
    world.arrive("a.txt", "new")
    assert world.drain().overwritten >= (policy != "ignore")
    world.arrive("b.txt")
    world.drain()
    assert world.files() == {"a.txt": rows} | lines("b.txt")
    assert bool(world.dead_files()) == dead


def test_an_overwritten_file_whose_event_was_lost_is_found_by_the_late_sweep() -> None:
    world = World(settings(on_overwrite=OnOverwrite.REPLACE))
    world.arrive("a.txt", "old")
    world.drain()
    world.put("a.txt", "new")
    world.late_sweep()
    world.drain()
    assert world.files() == {"a.txt": ["new"]}


@pytest.mark.parametrize("announced", [True, False])
def test_a_deleted_file_that_is_put_again_is_ingested_even_if_nothing_else_arrives(announced: bool) -> None:
    world = World()
    world.arrive("c.txt", "old")
    world.source.delete(["c.txt"])
    world.drain()
    event = world.put("c.txt", "new", "newer")
    if announced:
        world.deliver(event)
    world.drain()
    world.settle()
    assert world.files() == {"c.txt": ["new", "newer"]}
    sequence = world.state_now().sequence
    world.settle()
    world.settle()
    assert world.state_now().sequence == sequence


def test_a_replacement_that_cannot_be_read_leaves_the_old_rows() -> None:
    world = World(settings(on_overwrite=OnOverwrite.REPLACE))
    world.arrive("a.txt", "old")
    world.drain()
    world.deliver(world.put("a.txt", raw=POISON))
    world.arrive("b.txt")
    world.drain()
    assert world.files() == {"a.txt": ["old"]} | lines("b.txt")
    assert world.dead_files() == {"a.txt": "not a gzip file"}


def test_of_two_overwritten_files_only_the_readable_one_is_replaced() -> None:
    world = World(settings(on_overwrite=OnOverwrite.REPLACE))
    world.arrive("a.txt", "old")
    world.arrive("b.txt", "old")
    world.drain()
    world.deliver(world.put("a.txt", raw=POISON), world.put("b.txt", "new"))
    world.drain()
    assert world.files() == {"a.txt": ["old"], "b.txt": ["new"]}


def test_an_event_for_content_that_is_gone_is_not_an_overwrite() -> None:
    world = World(settings(on_overwrite=OnOverwrite.REPLACE))
    stale = world.put("a.txt", "old")
    world.arrive("a.txt", "new")
    world.drain()
    world.deliver(stale)
    assert world.drain().overwritten == 0
    assert world.files() == {"a.txt": ["new"]}


def test_an_old_event_in_the_same_batch_does_not_hide_an_overwrite() -> None:
    world = World(settings(on_overwrite=OnOverwrite.REPLACE))
    old = world.arrive("a.txt", "old")
    world.settle()
    world.deliver(old, world.put("a.txt", "newer"), world.put("a.txt", "newest"), old)
    world.drain()
    assert world.files() == {"a.txt": ["newest"]}


def test_a_file_overwritten_before_the_first_sweep_is_found_by_the_first_late_sweep() -> None:
    world = World(settings(on_overwrite=OnOverwrite.REPLACE, late_overlap_secs=1.0))
    world.arrive("a.txt", "old")
    world.drain()
    world.put("a.txt", "new")
    world.settle()
    assert world.files() == {"a.txt": ["new"]}
