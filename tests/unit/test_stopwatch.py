"""The parts of a turn and their times."""

import dataclasses
from contextlib import suppress
from typing import get_args

import pytest

from spark_job.ports.stopwatch import Part, Stopwatch, TurnSecs
from tests.unit.fakes import Clock


def test_a_turn_without_parts_has_only_its_total() -> None:
    clock = Clock(0.0)
    watch = Stopwatch(clock)
    clock.advance(2.0)
    assert watch.secs() == TurnSecs(total=2.0)


def test_a_repeated_part_adds_up_and_the_time_between_counts_in_the_total_alone() -> None:
    clock = Clock(0.0)
    watch = Stopwatch(clock)
    for secs in (1.0, 2.0):
        with watch.part("letters"):
            clock.advance(secs)
        clock.advance(4.0)
    assert watch.secs() == TurnSecs(letters=3.0, total=11.0)


def test_a_part_that_raises_is_timed_too() -> None:
    clock = Clock(0.0)
    watch = Stopwatch(clock)

    def fail() -> None:
        clock.advance(5.0)
        raise KeyError

    with pytest.raises(KeyError), watch.part("commit"):
        fail()
    assert watch.secs().commit == 5.0


def test_a_part_within_a_part_is_counted_once() -> None:
    clock = Clock(0.0)
    watch = Stopwatch(clock)
    with watch.part("commit"):
        clock.advance(1.0)
        with watch.part("lookup"):
            clock.advance(2.0)
            with watch.part("plan"):
                clock.advance(4.0)
        with watch.part("lookup"):
            clock.advance(8.0)
        clock.advance(16.0)
    with watch.part("commit"):
        clock.advance(32.0)
    assert watch.secs() == TurnSecs(commit=49.0, lookup=10.0, plan=4.0, total=63.0)


def test_a_part_that_raises_within_another_is_counted_once() -> None:
    clock = Clock(0.0)
    watch = Stopwatch(clock)

    def fail() -> None:
        clock.advance(2.0)
        raise KeyError

    with suppress(KeyError), watch.part("commit"), watch.part("lookup"):
        fail()
    with watch.part("commit"):
        clock.advance(1.0)
    assert watch.secs() == TurnSecs(commit=1.0, lookup=2.0, total=3.0)


def test_a_share_of_one_part_can_be_moved_to_another() -> None:
    clock = Clock(0.0)
    watch = Stopwatch(clock)
    watch.move_share(0.5, source="read", target="write")
    with watch.part("read"):
        clock.advance(4.0)
    watch.move_share(0.25, source="read", target="write")
    assert watch.secs() == TurnSecs(read=3.0, write=1.0, total=4.0)


def test_a_new_turn_starts_at_zero() -> None:
    clock = Clock(0.0)
    watch = Stopwatch(clock)
    with watch.part("read"):
        clock.advance(1.0)
    watch.restart()
    assert watch.secs() == TurnSecs()


def test_times_are_in_whole_milliseconds() -> None:
    clock = Clock(0.0)
    watch = Stopwatch(clock)
    with watch.part("copy"):
        clock.advance(1.23456)
    assert (watch.secs().copy, watch.secs().total) == (1.235, 1.235)


def test_each_part_has_its_place_in_the_result() -> None:
    assert {field.name for field in dataclasses.fields(TurnSecs)} == {*get_args(Part), "total"}
