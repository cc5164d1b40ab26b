"""Explores every interleaving of a few processes that share something, with a crash after any step.

A state is the content of what is shared, and the position of each process: the sequence of answers that it has got. A
state that was seen before is not followed again. Each process is run once for each sequence of answers, and each call
and each check once for each shared content; their results are then looked up.

A process that dies gets no further turn, because it has no effect between two calls. So a state in which at most
`crashes` processes have not ended is an end state as well, and must be sound with these processes dead.

Not every order of calls has to be tried to find every fault. The next call of a process is the only one that is tried
in a state if

1. its answer and its effect do not depend on anything that the others may still do before it: it reads nothing that
they may write and writes nothing that they may read or write, or it changes nothing and nobody can change its answer;
and

2. it changes nothing that is checked in each state, unless nobody else may change that either; and

3. it changes nothing at all, if any process may die.

This is sound. By (1), every continuation in which this call comes later leads to the same state as one in which it
comes first: it commutes with all calls before it, and each process gets the same answers. Continuations in which it
never comes lead to end states in which its process is dead; by (3) the shared content there is the same with or without
the call, and at most one process fewer is dead (`finish` requires no less if one more has ended). By (2), what is
checked takes the same values in the same order. No call is postponed for ever, since each step leads to a new state:
sequences of answers only grow. These are the conditions of an ample set of one process.

With a bound on interruptions every order is tried. If answers may be lost, a call that can lose its answer has two
further outcomes: it was carried out or it was not, and its caller gets an error. Each is a step of its own, of a call
that reads and writes no more than before; so if a call comes first as above, so do all of its outcomes. The number of
lost answers is part of the state.
"""

from collections.abc import Callable, Hashable, Set
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from itertools import product
from operator import or_
from typing import Any

from tests.proof.interleavings.processes import Actor, Answer, Local
from tests.proof.interleavings.world import Broken, Explored, Found, World

BITS = 22
"""Bits for the position of a process in the number of a state."""
EVERY = 512
"""Number of states between two checks whether to stop."""


def explore(
    make: Callable[[], World],
    *,
    crashes: int = 0,
    switches: int | None = None,
    lost_answers: int = 0,
    stop: Callable[[Explored], bool] = lambda explored: False,
    fewer: bool = True,
) -> Explored:
    """Visits every state that up to `crashes` deaths and `lost_answers` can lead to. `switches` bounds how often a
    process that could continue may be interrupted; None: no bound. `stop` may end the exploration early. `fewer`:
    leaves out orders, as above. Raises Found."""
    search = _Search(make(), crashes, switches, lost_answers, stop, fewer and switches is None)
    try:
        search.run()
    except _Stopped:
        search.explored.complete = False
    finally:
        search.close()
    return search.explored


def smallest(make: Callable[[], World], *, crashes: int, lost_answers: int = 0, most_switches: int = 6) -> Found | None:
    """Steps to the fault with as few lost answers, deaths and interruptions as possible."""
    for lost, deaths, switches in product(range(lost_answers + 1), range(crashes + 1), range(most_switches + 1)):
        try:
            explore(make, crashes=deaths, switches=switches, lost_answers=lost)
        except Found as found:
            return found
    return None


class _Stopped(Exception):
    pass


class _Fate(StrEnum):
    """A call, as the steps to a fault show it."""

    ANSWERED = "{call}"
    DEAD = "dies before {call}"
    DONE = "{call}, which is done, and no answer comes"
    NOT_DONE = "{call}, which is not done, and no answer comes"


@dataclass(eq=False, slots=True)
class _Shared:
    """A shared content, and its known results."""

    number: int
    kept: Any
    after: dict[int, tuple[int, "_Shared", bool]] = field(default_factory=dict)
    """By number of the call: number of its answer, the content after it, and whether its result is final."""
    sound: bool = False
    ends: set[frozenset[str]] = field(default_factory=set)
    """The sets of ended processes with which this content led to a good end."""


class _Search:
    def __init__(
        self,
        world: World,
        crashes: int,
        switches: int | None,
        lost_answers: int,
        stop: Callable[[Explored], bool],
        fewer: bool,
    ) -> None:
        self.explored = Explored()
        self._world, self._crashes, self._switches, self._stop, self._fewer = world, crashes, switches, stop, fewer
        self._lost_answers = lost_answers
        self._actors = [Actor(worker) for worker in world.workers]
        self._shifts = [BITS * number for number in range(len(self._actors) + 1)]
        self._never = -1 if crashes else 0
        """The areas that a preferred call must not change: all of them if any process may die."""
        self._others: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        self._seen = set[Hashable]()
        self._calls: dict[Hashable, int] = {}
        self._answers: dict[str, int] = {}
        self._given: list[Answer] = []
        self._contents: dict[Hashable, _Shared] = {}
        self._way: list[tuple[int, Local, _Fate]] = []
        """The process that moved, its position before, and the outcome of its call."""

    def run(self) -> None:
        at = tuple(actor.first for actor in self._actors)
        try:
            shared = self._content()
            for local in at:
                shared = self._by_itself(shared, local)
            self._visit(shared, at, self._number(shared, at), -1, 0, frozenset())
        except Broken as error:
            raise Found(str(error), [self._said(*move) for move in self._way]) from error

    def close(self) -> None:
        for actor in self._actors:
            actor.close()

    def _visit(
        self, shared: _Shared, at: tuple[Local, ...], number: int, last: int, switches: int, dead: frozenset[int]
    ) -> None:
        """`last` moved, after so many interruptions; -1: no process, or a dead one. `dead`: used only with a bound on
        interruptions: a process that could continue is interrupted when another one moves, unless it is dead."""
        self._seen.add(self._state(at, number, last, switches, dead))
        self._count()
        if not shared.sound:
            self._check(shared)
        alive = [one for one, local in enumerate(at) if local.call is not None and one not in dead]
        if len(alive) + len(dead) <= self._crashes:
            self._end(shared, at, dead.union(alive))
        if self._switches is not None:
            alive = self._bounded(shared, at, number, alive, last, switches, dead)
        elif self._fewer and len(alive) > 1:
            alive = self._alone(shared, at, alive)
        top = self._shifts[-1]
        for one in alive:
            local = at[one]
            interrupted = switches + (0 <= last != one and at[last].call is not None)
            for fate, answer, after in self._fates(shared, at, local):
                there = local.after.get(answer) or self._go_on(one, local, answer)
                self.explored.steps += 1
                self.explored.unanswered += fate is not _Fate.ANSWERED
                if there.error is not None:
                    self._fail(one, local, fate, there.error)
                if there.did:
                    after = self._by_itself(after, there)
                moved = after.number - shared.number << top
                then = number + moved + (there.number - local.number << self._shifts[one])
                places = (*at[:one], there, *at[one + 1 :])
                if self._state(places, then, one, interrupted, dead) not in self._seen:
                    self._way.append((one, local, fate))
                    self._visit(after, places, then, one, interrupted, dead)
                    self._way.pop()

    def _state(self, at: tuple[Local, ...], number: int, last: int, switches: int, dead: frozenset[int]) -> Hashable:
        """Identifies the state: equal keys have equal continuations."""
        if self._lost_answers:
            number = number * (self._lost_answers + 1) + sum(local.lost for local in at)
        return number if self._switches is None else (number, last, switches, dead)

    def _fates(self, shared: _Shared, at: tuple[Local, ...], local: Local) -> list[tuple[_Fate, int, _Shared]]:
        """The outcomes of the next call: number of the answer, and the content after it."""
        answer, after, _ = shared.after.get(local.call_number) or self._do(shared, local)
        fates = [(_Fate.ANSWERED, answer, after)]
        error = local.call.unanswered if local.call is not None else None
        if error is not None and self._lost_answers and sum(place.lost for place in at) < self._lost_answers:
            none = self._numbered(Answer(error=error, lost=True))
            fates.append((_Fate.DONE, none, after))
            if after is not shared:
                fates.append((_Fate.NOT_DONE, none, shared))
        return fates

    def _bounded(
        self,
        shared: _Shared,
        at: tuple[Local, ...],
        number: int,
        alive: list[int],
        last: int,
        switches: int,
        dead: frozenset[int],
    ) -> list[int]:
        """The processes that may move; the last one moves first, or dies first."""
        if last not in alive:
            return alive
        if len(dead) < self._crashes and self._state(at, number, -1, switches, dead | {last}) not in self._seen:
            self._way.append((last, at[last], _Fate.DEAD))
            self._visit(shared, at, number, -1, switches, dead | {last})
            self._way.pop()
        others = [one for one in alive if one != last]
        return [last, *others] if self._switches is None or switches < self._switches else [last]

    def _alone(self, shared: _Shared, at: tuple[Local, ...], alive: list[int]) -> list[int]:
        """The first process whose call may be tried alone, as described above; otherwise all."""
        others = self._others.get(tuple(alive)) or self._may(alive)
        for one, (read, written) in zip(alive, others, strict=True):
            local = at[one]
            call = local.call
            assert call is not None
            _, _, lasts = shared.after.get(local.call_number) or self._do(shared, local)
            if not lasts and (call.reads & written or call.writes & (read | written | self._never)):
                continue
            if not lasts and call.writes & self._world.checked and written & self._world.checked:
                continue
            fates = self._fates(shared, at, local)
            after = [local.after.get(answer) or self._go_on(one, local, answer) for _, answer, _ in fates]
            if not any(there.did or there.error for there in after):
                return [one]
        return alive

    def _may(self, alive: list[int]) -> list[tuple[int, int]]:
        """What all others may read, and what they may write, for each process that is alive."""
        found = []
        for one in alive:
            workers = [self._actors[other].worker for other in alive if other != one]
            read, written = (reduce(or_, masks) for masks in zip(*((w.reads, w.writes) for w in workers), strict=True))
            found.append((read, written))
        self._others[tuple(alive)] = found
        return found

    # -- what is done once for each content

    def _do(self, shared: _Shared, local: Local) -> tuple[int, _Shared, bool]:
        """Number of the answer, content after it, and whether its result is final."""
        call = local.call
        assert call is not None
        local.call_number = self._calls.setdefault(call.key, len(self._calls))
        if local.call_number in shared.after:
            return shared.after[local.call_number]
        self._world.restore(shared.kept)
        lasts = call.lasts(self._world)
        try:
            answer = Answer(call.do(self._world))
        except Exception as error:  # noqa: BLE001 - that is what the process is answered
            answer = Answer(error=error)
        found = shared.after[local.call_number] = self._numbered(answer), self._content(), lasts
        return found

    def _numbered(self, answer: Answer) -> int:
        number = self._answers.setdefault(repr(answer), len(self._answers))
        if number == len(self._given):
            self._given.append(answer)
        return number

    def _go_on(self, one: int, local: Local, answer: int) -> Local:
        self.explored.runs += 1
        there = self._actors[one].go_on(local, answer, self._given[answer])
        assert there.number < 1 << BITS, "more sequences of answers than a state has room for"
        return there

    def _by_itself(self, shared: _Shared, local: Local) -> _Shared:
        """The local effects of a process."""
        if not local.did:
            return shared
        if local.did_number < 0:
            key = tuple(call.key for call in local.did)
            local.did_number = self._calls.setdefault(("by itself", key), len(self._calls))
        if local.did_number not in shared.after:
            self._world.restore(shared.kept)
            for call in local.did:
                call.do(self._world)
            shared.after[local.did_number] = -1, self._content(), False
        return shared.after[local.did_number][1]

    def _content(self) -> _Shared:
        """The world in its current state."""
        key, kept = self._world.keep()
        found = self._contents.get(key)
        if found is None:
            found = self._contents[key] = _Shared(len(self._contents), kept)
        return found

    def _check(self, shared: _Shared) -> None:
        self._world.restore(shared.kept)
        self._world.check()
        shared.sound = True

    def _end(self, shared: _Shared, at: tuple[Local, ...], dead: Set[int]) -> None:
        self.explored.ends += 1
        self.explored.deaths += len(dead)
        names = (actor.worker.name for one, actor in enumerate(self._actors) if one not in dead)
        ended = self._world.heeded.intersection(names)
        if ended in shared.ends:
            return
        self._world.restore(shared.kept)
        try:
            self._world.finish(ended)
        except Broken:
            fallen = {one for one, _, fate in self._way if fate is _Fate.DEAD}
            self._way += [(one, at[one], _Fate.DEAD) for one in sorted(dead - fallen)]
            raise
        shared.ends.add(ended)

    # --

    def _count(self) -> None:
        self.explored.states += 1
        if self.explored.states % EVERY == 1 and self._stop(self.explored):
            raise _Stopped

    def _number(self, shared: _Shared, at: tuple[Local, ...]) -> int:
        numbers = (local.number << shift for local, shift in zip(at, self._shifts, strict=False))
        return (shared.number << self._shifts[-1]) + sum(numbers)

    def _fail(self, one: int, local: Local, fate: _Fate, error: Exception) -> None:
        self._way.append((one, local, fate))
        raise Broken(f"{self._actors[one].worker.name} ended with {error!r}") from error

    def _said(self, one: int, local: Local, fate: _Fate) -> str:
        call = local.call.text if local.call else "its end"
        return f"{self._actors[one].worker.name}: {fate.format(call=call)}"
