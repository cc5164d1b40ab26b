"""Bad files, bad records, and storage that denies or fails."""

import pytest

from blizzard.errors import PermanentError, StorageUnavailable
from tests.unit.fakes import POISON, World, settings
from tests.unit.scenarios import lines


def test_the_good_files_of_a_batch_are_ingested_and_the_bad_ones_dead_lettered() -> None:
    world = World()
    events = [world.put(f"{n}.txt", f"{n}.txt 0", f"{n}.txt 1") for n in range(3)]
    world.deliver(*events, *(world.put(f"{n}.txt", raw=POISON) for n in range(3, 6)))
    assert world.drain().commits == 1
    assert world.files() == lines("0.txt", "1.txt", "2.txt")
    assert sorted(world.dead_files()) == ["3.txt", "4.txt", "5.txt"]


def test_a_poison_file_is_dead_lettered_once_and_blocks_no_other() -> None:
    world = World()
    world.deliver(world.put("a.txt", raw=POISON))
    world.drain()
    world.settle()
    world.arrive("b.txt")
    world.drain()
    assert world.files() == lines("b.txt")
    assert world.dead_letters.count_files() == 1


def test_a_file_that_is_gone_before_it_is_read_is_dead_lettered() -> None:
    world = World()
    world.arrive("a.txt")
    world.source.delete(["a.txt"])
    world.arrive("b.txt")
    world.drain()
    assert world.dead_files() == {"a.txt": "gone"}
    assert world.files() == lines("b.txt")


def test_bad_records_are_dead_lettered_by_number_and_the_others_are_ingested() -> None:
    world = World()
    world.arrive("a.txt", "good", "!bad", "fine")
    totals = world.drain()
    assert (totals.rows, totals.dead_records) == (2, 1)
    assert world.files() == {"a.txt": ["good", "fine"]}
    assert world.dead_records() == {"a.txt": [1]}


def test_a_batch_that_is_mostly_denied_stops_the_job_and_dead_letters_nothing() -> None:
    world = World()
    for name in ("a.txt", "b.txt", "c.txt"):
        world.arrive(name)
    world.reader.denied = {"a.txt", "b.txt"}
    with pytest.raises(PermanentError, match="2 of 3 files"):
        world.drain()
    assert (world.files(), world.dead_files()) == ({}, {})
    world.reader.denied = set()
    world.drain()
    assert world.files() == lines("a.txt", "b.txt", "c.txt")


def test_one_denied_file_among_others_is_dead_lettered() -> None:
    world = World()
    for name in ("a.txt", "b.txt", "c.txt"):
        world.arrive(name)
    world.reader.denied = {"b.txt"}
    world.drain()
    assert world.files() == lines("a.txt", "c.txt")
    assert world.dead_files() == {"b.txt": "403 forbidden"}


def test_a_transient_failure_of_storage_is_retried() -> None:
    world = World()
    world.arrive("a.txt")
    world.reader.transient_failures = 3
    world.drain()
    assert world.files() == lines("a.txt")
    assert world.slept_secs == sorted(world.slept_secs)
    assert len(world.slept_secs) == 3


def test_storage_that_never_recovers_ends_the_job_with_its_error_and_loses_nothing() -> None:
    world = World(settings(max_attempts=4))
    world.arrive("a.txt")
    world.reader.transient_failures = 4
    with pytest.raises(StorageUnavailable, match="503 slow down"):
        world.drain()
    assert len(world.slept_secs) == 3
    assert (world.files(), world.dead_files()) == ({}, {})
    world.drain()
    assert world.files() == lines("a.txt")
