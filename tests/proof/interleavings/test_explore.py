"""The explorer finds what it has to find in worlds that are small enough to be known by heart."""

from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from math import comb, factorial
from typing import Any

import pytest

from tests.proof.interleavings.explore import explore, smallest
from tests.proof.interleavings.processes import Call, Process, Worker
from tests.proof.interleavings.world import Broken, Explored, Found

Work = Callable[["Toy", Process], object]
NONE = TimeoutError("no answer")


class Toy:
    """Registers, each of them an area. `sound` and `good` are asked in each state and at each end."""

    checked = 0
    heeded = frozenset[str]()

    def __init__(
        self,
        *works: Work,
        areas: tuple[tuple[int, int], ...] = (),
        good: Callable[[dict[str, Any]], object] = lambda registers: True,
        sound: Callable[[dict[str, Any]], object] = lambda registers: True,
    ) -> None:
        self.registers: dict[str, Any] = {}
        self.good, self.sound = good, sound
        self.contents = set[Hashable]()
        self.ends = set[Hashable]()
        self.runs = 0
        may = areas or ((-1, -1),) * len(works)
        self.workers = [
            Worker(f"process {number}", self._counted(work), *may[number]) for number, work in enumerate(works)
        ]

    def _counted(self, work: Work) -> Callable[[Process], object]:
        def run(process: Process) -> object:
            self.runs += 1
            return work(self, process)

        return run

    def keep(self) -> tuple[Hashable, Any]:
        kept = tuple(sorted(self.registers.items()))
        return kept, kept

    def restore(self, kept: Any) -> None:
        self.registers = dict(kept)

    def check(self) -> None:
        self.contents.add(self.keep()[0])
        if not self.sound(self.registers):
            raise Broken(f"unsound: {self.registers}")

    def finish(self, ended: frozenset[str]) -> None:
        self.ends.add(self.keep()[0])
        if not self.good(self.registers):
            raise Broken(f"no good end: {self.registers}")


def read(process: Process, name: str) -> Any:
    bit = 1 << ord(name) - ord("a")
    return process.shares(Call(f"read {name}", ("read", name), lambda toy: toy.registers.get(name, 0), bit, 0))


def write(process: Process, name: str, value: Any) -> None:
    bit = 1 << ord(name) - ord("a")
    text, key = f"write {name} {value}", (name, value)
    process.shares(Call(text, key, lambda toy: toy.registers.update({name: value}), bit, bit, unanswered=NONE))


def surely(process: Process, call: Callable[[], object]) -> None:
    """Until there is an answer."""
    while True:
        with suppress(TimeoutError):
            call()
            return


def adds_one(toy: Toy, process: Process) -> None:
    write(process, "a", read(process, "a") + 1)


def two_of_one(toy: Toy, process: Process) -> None:
    """What belongs together, in two steps."""
    write(process, "a", 1)
    write(process, "b", 1)


@pytest.mark.parametrize("fewer", [True, False])
def test_a_lost_update_is_found_by_the_fewest_steps(fewer: bool) -> None:
    def make() -> Toy:
        return Toy(adds_one, adds_one, good=lambda registers: registers["a"] == 2)

    with pytest.raises(Found, match=r"no good end: \{'a': 1\}"):
        explore(make, fewer=fewer)
    found = smallest(make, crashes=1)
    assert found is not None
    assert found.steps == [
        "process 0: read a",
        "process 1: read a",
        "process 1: write a 1",
        "process 0: write a 1",
    ]


@pytest.mark.parametrize("fewer", [True, False])
def test_a_fault_that_only_a_kill_shows_is_found_only_with_kills(fewer: bool) -> None:
    def make() -> Toy:
        return Toy(two_of_one, adds_nothing, good=lambda registers: registers.get("a") == registers.get("b"))

    assert explore(make, crashes=0, fewer=fewer).deaths == 0
    with pytest.raises(Found) as found:
        explore(make, crashes=1, fewer=fewer)
    assert "process 0: dies before write b 1" in found.value.steps
    shortest = smallest(make, crashes=1)
    assert shortest is not None
    assert [step for step in shortest.steps if "dies" in step] == ["process 0: dies before write b 1"]


def counts_up(toy: Toy, process: Process) -> None:
    """Not the same if it is done twice."""

    def add(toy: Toy) -> None:
        toy.registers["a"] = toy.registers.get("a", 0) + 1

    surely(process, lambda: process.shares(Call("count", "count", add, 1, 1, unanswered=NONE)))


@pytest.mark.parametrize("fewer", [True, False])
def test_a_fault_that_only_a_lost_response_shows_is_found_with_one(fewer: bool) -> None:
    def make() -> Toy:
        return Toy(counts_up, adds_nothing, good=lambda registers: registers.get("a", 0) < 2)

    explored = explore(make, fewer=fewer)
    assert (explored.complete, explored.unanswered) == (True, 0)
    with pytest.raises(Found, match=r"no good end: \{'a': 2\}"):
        explore(make, lost_answers=1, fewer=fewer)
    shortest = smallest(make, crashes=1, lost_answers=1)
    assert shortest is not None
    assert [step for step in shortest.steps if "count" in step] == [
        "process 0: count, which is done, and no answer comes",
        "process 0: count",
    ]


@pytest.mark.parametrize("switches", [None, 3])
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_no_more_responses_are_lost_than_allowed(lost: int, switches: int | None) -> None:
    """By both together; each may have been done, or not."""
    toy = Toy(counts_up, counts_up)
    explored = explore(lambda: toy, lost_answers=lost, switches=switches)
    assert toy.ends == {(("a", count),) for count in range(2, 3 + lost)}
    assert explored.complete
    assert (explored.unanswered > 0) == (lost > 0)


def adds_nothing(toy: Toy, process: Process) -> None:
    read(process, "c")


@pytest.mark.parametrize("steps", [1, 3, 6])
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_independent_processes_have_all_combinations_of_states(steps: int, processes: int) -> None:
    def works(toy: Toy, process: Process) -> None:
        for _ in range(steps):
            read(process, "a")

    explored = explore(lambda: Toy(*[works] * processes), fewer=False)
    assert explored.states == (steps + 1) ** processes
    assert explored.steps == processes * steps * (steps + 1) ** (processes - 1)
    assert (explored.ends, explored.deaths, explored.complete) == (1, 0, True)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_dependent_processes_have_a_state_for_each_order(steps: int) -> None:
    """Each writes what was there and its own name behind it."""

    def works(toy: Toy, process: Process) -> None:
        for _ in range(steps):
            call = Call("append", (process.name, "append"), append(process.name[-1]))
            process.shares(call)

    def append(name: str) -> Callable[[Toy], None]:
        return lambda toy: toy.registers.update(a=f"{toy.registers.get('a', '')}{name}")

    toy = Toy(works, works)
    explored = explore(lambda: toy)
    orders = sum(comb(m + n, m) for m in range(steps + 1) for n in range(steps + 1))
    assert explored.states == orders
    assert len(toy.ends) == factorial(2 * steps) // factorial(steps) ** 2
    assert explored.runs <= 2 * steps, "the same answers, and still it was run again"


def test_a_switch_away_from_a_process_that_could_continue_is_an_interruption() -> None:
    def make() -> Toy:
        return Toy(adds_one, adds_one, good=lambda registers: registers["a"] == 2)

    assert explore(make, switches=0).complete
    with pytest.raises(Found):
        explore(make, switches=1)


@pytest.mark.parametrize("crashes", [0, 1, 2])
def test_kills_are_counted_in_all_end_states(crashes: int) -> None:
    """Who died did so before its only step: of three some have done it, the others are dead."""
    explored = explore(lambda: Toy(*[adds_nothing] * 3), crashes=crashes, fewer=False)
    assert explored.ends == sum(comb(3, dead) for dead in range(crashes + 1))
    assert explored.deaths == sum(dead * comb(3, dead) for dead in range(crashes + 1))


def test_a_process_that_ends_with_an_error_is_found() -> None:
    def fails(toy: Toy, process: Process) -> None:
        if read(process, "a"):
            raise ValueError("a is set")

    with pytest.raises(Found, match="process 0 ended with ValueError") as found:
        explore(lambda: Toy(fails, adds_one))
    assert found.value.steps[-1] == "process 0: read a"


def test_an_undeclared_call_of_a_process_is_an_error() -> None:
    with pytest.raises(Found, match="reads or writes where its worker has said it does not"):
        explore(lambda: Toy(adds_one, areas=((1, 0),)))


def test_an_exploration_can_be_ended_early() -> None:
    explored = explore(lambda: Toy(adds_one, adds_one), stop=lambda explored: True)
    assert (explored.complete, explored.states) == (False, 1)


# -- not every order

A, B, C, D = 1, 2, 4, 8


def own_and_shared(own: str) -> Work:
    def work(toy: Toy, process: Process) -> None:
        surely(process, partial(write, process, own, 1))
        value = read(process, "a")
        surely(process, partial(write, process, own, value + read(process, own)))
        surely(process, partial(write, process, "a", value + 1))
        read(process, own)

    return work


def watches(toy: Toy, process: Process) -> None:
    surely(process, partial(write, process, "d", (read(process, "a"), read(process, "b"))))


def surely_two_of_one(toy: Toy, process: Process) -> None:
    surely(process, partial(write, process, "a", 1))
    surely(process, partial(write, process, "b", 1))


WORLDS: dict[str, tuple[tuple[Work, ...], tuple[tuple[int, int], ...]]] = {
    "each has its own": ((own_and_shared("b"), own_and_shared("c")), ((A | B, A | B), (A | C, A | C))),
    "a third one watches": (
        (own_and_shared("b"), own_and_shared("c"), watches),
        ((A | B, A | B), (A | C, A | C), (A | B | D, D)),
    ),
    "one writes what the other reads": ((surely_two_of_one, watches), ((A | B, A | B), (A | B | D, D))),
}


def explored_toys(
    name: str, crashes: int, checked: int, lost: int = 0
) -> tuple[tuple[Toy, Explored], tuple[Toy, Explored]]:
    works, areas = WORLDS[name]
    toys = Toy(*works, areas=areas), Toy(*works, areas=areas)
    for toy in toys:
        toy.checked = checked
    reduced = explore(lambda: toys[0], crashes=crashes, lost_answers=lost)
    whole = explore(lambda: toys[1], crashes=crashes, lost_answers=lost, fewer=False)
    return (toys[0], reduced), (toys[1], whole)


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("crashes", [0, 1, 2])
@pytest.mark.parametrize("checked", [0, A, A | B, A | B | C | D])
@pytest.mark.parametrize("name", WORLDS)
def test_the_reduced_orders_have_the_same_end_states_and_checks(
    name: str, crashes: int, checked: int, lost: int
) -> None:
    (few, reduced), (all_, whole) = explored_toys(name, crashes, checked, lost)
    assert few.ends == all_.ends
    for toy in (few, all_):
        toy.contents = {tuple((n, v) for n, v in kept if 1 << ord(n) - ord("a") & checked) for kept in toy.contents}  # type: ignore[attr-defined]
    assert few.contents == all_.contents
    assert reduced.states <= whole.states


def test_independent_calls_need_fewer_orders() -> None:
    (_, reduced), (_, whole) = explored_toys("each has its own", 0, 0)
    assert reduced.states * 3 < whole.states * 2


def test_a_call_whose_result_cannot_change_is_made_at_once() -> None:
    def looks(toy: Toy, process: Process) -> None:
        for _ in range(3):
            done = Call("look", "look", lambda toy: toy.registers.get("a"), lasts=lambda toy: "a" in toy.registers)
            process.shares(done)

    def make() -> Toy:
        return Toy(two_of_one, looks)

    reduced, whole = explore(make), explore(make, fewer=False)
    assert reduced.states < whole.states
    assert reduced.ends == whole.ends
