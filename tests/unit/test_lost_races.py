"""Commits whose answer is lost, and several jobs at once."""

import pytest

from blizzard.errors import LostRace
from tests.unit.fakes import World, settings
from tests.unit.scenarios import lines


def test_a_commit_whose_answer_was_lost_is_found_and_not_repeated() -> None:
    world = World()
    world.arrive("a.txt")
    world.delta.faults = ["answer lost"]
    assert world.drain().commits == 1
    assert world.files() == lines("a.txt")
    assert world.doubled() == []


def test_a_commit_that_did_not_arrive_is_repeated() -> None:
    world = World()
    world.arrive("a.txt")
    world.delta.faults = ["lost", "lost"]
    world.drain()
    assert world.files() == lines("a.txt")
    assert len(world.slept_secs) == 2


def test_of_two_concurrent_jobs_one_commits_and_the_other_plans_again() -> None:
    world = World()
    world.arrive("a.txt")
    job = world.job()
    world.delta.before_commit = lambda: (world.arrive("b.txt"), world.drain(), world.arrive("c.txt"))
    totals = job.drain()
    assert (totals.lost_races, totals.commits) == (1, 1)
    assert world.files() == lines("a.txt", "b.txt", "c.txt")
    assert world.doubled() == []


def test_a_job_that_planned_before_another_one_committed_notices_that_it_lost() -> None:
    world = World()
    world.arrive("a.txt")
    job = world.job()
    job.step(draining=False)
    world.arrive("b.txt")
    world.drain()
    world.arrive("c.txt")
    assert job.drain().lost_races == 1
    assert world.files() == lines("a.txt", "b.txt", "c.txt")
    assert world.doubled() == []


def test_a_first_commit_by_another_job_during_recovery_is_not_an_error() -> None:
    world = World()
    world.arrive("a.txt")
    world.calls.before_named("holds_rows", world.drain)
    job = world.job()
    world.arrive("b.txt")
    job.drain()
    assert world.files() == lines("a.txt", "b.txt")
    assert world.doubled() == []


def test_a_job_that_loses_every_race_fails() -> None:
    world = World(settings(max_attempts=3))
    world.arrive("b.txt")
    overtake(world, times=3)
    with pytest.raises(LostRace, match="3 times in a row"):
        world.drain()


def overtake(world: World, times: int) -> None:
    """Let another job commit the whole backlog just before each of the next commits, while more files come."""

    def win() -> None:
        world.drain()
        world.arrive(f"z{times}.txt")
        if times > 1:
            overtake(world, times - 1)

    world.delta.before_commit = win
