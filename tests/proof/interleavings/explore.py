"""Every interleaving of a few processes that share something, with a crash after any step.

A state is what is shared, and where each process is: what it was answered so far. A state that was seen before is not
followed again. Each process is run once for each sequence of answers, each call and each check once for each content of
what is shared; the rest is looked up.

A process that dies is one that has no further turn: it never has an effect between two calls. So a state in which no
more than `crashes` processes have not ended is an end, too, and has to be sound with these dead.

Not every order of calls has to be tried to see every fault. Where the next call of one process

1. answers what it does, and does what it does, whatever all others may still do before it: it reads nothing that they
   may write and writes nothing that they may read or write, or it changes nothing and nobody can change its answer; and
2. changes nothing that is checked in each state, unless nobody else may change that, either; and
3. changes nothing at all, where anybody may die,

it is the only one that is tried in this state. That is sound: (1) every way on from here in which this call comes later
is, with this call first, a way to the same state, since it commutes with all that comes before it, and each process is
answered the same. Ways in which it never comes lead to ends in which the process is dead; by (3) what is shared is the
same there with the call or without it, and at most one is dead less (`finish` asks no less where one more has ended).
(2) What is checked takes on the same values in the same order. And no call is put off for ever, since each step leads
to a state that was never before: answers only become more. These are the conditions of an ample set, of one process.
With a bound of interruptions every order is tried.

Where up to so many answers may be lost, a call that can be left without one has two further fates: it was done, or it
was not, and its caller gets an error. Each is a step like any other, of a call that reads and writes no more; so where
a call comes first as above, all of its fates do. How many answers were lost belongs to the state.
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
"""Of the number of where a process is, in the number of a state."""
EVERY = 512
"""States between two looks at whether to stop."""


def explore(
    make: Callable[[], World],
    *,
    crashes: int = 0,
    switches: int | None = None,
    lost_answers: int = 0,
    stop: Callable[[Explored], bool] = lambda explored: False,
    fewer: bool = True,
) -> Explored:
    """Visit every state that up to `crashes` deaths and `lost_answers` can lead to. `switches` bounds how often a
    process may be interrupted that could go on; None: any number. `stop` may end it early. `fewer`: not every order,
    as above. Raises Found."""
    search = _Search(make(), crashes, switches, lost_answers, stop, fewer and switches is None)
    try:
        search.run()
    except _Stopped:
        search.explored.complete = False
    finally:
        search.close()
    return search.explored


def smallest(make: Callable[[], World], *, crashes: int, lost_answers: int = 0, most_switches: int = 6) -> Found | None:
    """A reproduction with as few lost answers, deaths and interruptions as any."""
    for lost, deaths, switches in product(range(lost_answers + 1), range(crashes + 1), range(most_switches + 1)):
        try:
            explore(make, crashes=deaths, switches=switches, lost_answers=lost)
        except Found as found:
            return found
    return None


class _Stopped(Exception):
    pass


class _Fate(StrEnum):
    """Of a call, as a way to a fault has it."""

    ANSWERED = "{call}"
    DEAD = "dies before {call}"
    DONE = "{call}, which is done, and no answer comes"
    NOT_DONE = "{call}, which is not done, and no answer comes"


@dataclass(eq=False, slots=True)
class _Shared:
    """A content of what is shared, and what is known of it."""

    number: int
    kept: Any
    after: dict[int, tuple[int, "_Shared", bool]] = field(default_factory=dict)
    """By number of the call: that of its answer, the content after it, and whether it lasts."""
    sound: bool = False
    ends: set[frozenset[str]] = field(default_factory=set)
    """Who had ended when this content was led to a good end."""


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
        """What is not changed at once: where anybody may die, anything."""
        self._others: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        self._seen = set[Hashable]()
        self._calls: dict[Hashable, int] = {}
        self._answers: dict[str, int] = {}
        self._given: list[Answer] = []
        self._contents: dict[Hashable, _Shared] = {}
        self._way: list[tuple[int, Local, _Fate]] = []
        """Who moved from where, and what became of its call."""

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
        """`last` moved, after so many interruptions; -1: nobody, or who is dead now. `dead`: only where interruptions
        are bounded; there who could go on and is left for another one is interrupted, unless it is dead."""
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
        """What tells it from others: what may come of it is the same in all that are equal."""
        if self._lost_answers:
            number = number * (self._lost_answers + 1) + sum(local.lost for local in at)
        return number if self._switches is None else (number, last, switches, dead)

    def _fates(self, shared: _Shared, at: tuple[Local, ...], local: Local) -> list[tuple[_Fate, int, _Shared]]:
        """What may become of the next call, the number of what its caller gets, and the content after it."""
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
        """Who may move; whoever moved last goes first, or dies first."""
        if last not in alive:
            return alive
        if len(dead) < self._crashes and self._state(at, number, -1, switches, dead | {last}) not in self._seen:
            self._way.append((last, at[last], _Fate.DEAD))
            self._visit(shared, at, number, -1, switches, dead | {last})
            self._way.pop()
        others = [one for one in alive if one != last]
        return [last, *others] if self._switches is None or switches < self._switches else [last]

    def _alone(self, shared: _Shared, at: tuple[Local, ...], alive: list[int]) -> list[int]:
        """The first that needs no others beside it, as the module says; all, where there is none."""
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
        """What all others may read, and what they may write, for each of those that are alive."""
        found = []
        for one in alive:
            workers = [self._actors[other].worker for other in alive if other != one]
            read, written = (reduce(or_, masks) for masks in zip(*((w.reads, w.writes) for w in workers), strict=True))
            found.append((read, written))
        self._others[tuple(alive)] = found
        return found

    # -- what is done once for each content

    def _do(self, shared: _Shared, local: Local) -> tuple[int, _Shared, bool]:
        """Number of the answer, content after it, and whether it lasts."""
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
        """What a process did with nobody looking."""
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
        """The world as it is now."""
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
