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
"""

from collections.abc import Callable, Hashable, Set
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

from tests.proof.processes import Actor, Answer, Local
from tests.proof.world import Broken, Explored, Found, World

BITS = 22
"""Of the number of where a process is, in the number of a state."""
EVERY = 512
"""States between two looks at whether to stop."""


def explore(
    make: Callable[[], World],
    *,
    crashes: int = 0,
    switches: int | None = None,
    stop: Callable[[Explored], bool] = lambda explored: False,
    fewer: bool = True,
) -> Explored:
    """Visit every state that up to `crashes` deaths can lead to. `switches` bounds how often a process may be
    interrupted that could go on; None: any number. `stop` may end it early. `fewer`: not every order, as above. Raises
    Found."""
    search = _Search(make(), crashes, switches, stop, fewer and switches is None)
    try:
        search.run()
    except _Stopped:
        search.explored.complete = False
    finally:
        search.close()
    return search.explored


def smallest(make: Callable[[], World], *, crashes: int, most_switches: int = 6) -> Found | None:
    """A reproduction with as few deaths and interruptions as any."""
    for deaths in range(crashes + 1):
        for switches in range(most_switches + 1):
            try:
                explore(make, crashes=deaths, switches=switches)
            except Found as found:
                return found
    return None


class _Stopped(Exception):
    pass


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
        self, world: World, crashes: int, switches: int | None, stop: Callable[[Explored], bool], fewer: bool
    ) -> None:
        self.explored = Explored()
        self._world, self._crashes, self._switches, self._stop, self._fewer = world, crashes, switches, stop, fewer
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
        self._way: list[tuple[int, Local, bool]] = []
        """Who moved from where, and whether it died instead."""

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
        bounded = self._switches is not None
        self._seen.add((number, last, switches, dead) if bounded else number)
        self._count()
        if not shared.sound:
            self._check(shared)
        alive = [one for one, local in enumerate(at) if local.call is not None and one not in dead]
        if len(alive) + len(dead) <= self._crashes:
            self._end(shared, at, dead.union(alive))
        if bounded:
            alive = self._bounded(shared, at, number, alive, last, switches, dead)
        elif self._fewer and len(alive) > 1:
            alive = self._alone(shared, at, alive)
        top = self._shifts[-1]
        for one in alive:
            local = at[one]
            answer, after, _ = shared.after.get(local.call_number) or self._do(shared, local)
            there = local.after.get(answer) or self._go_on(one, local, answer)
            self.explored.steps += 1
            if there.error is not None:
                self._fail(one, local, there.error)
            if there.did:
                after = self._by_itself(after, there)
            then = number + (after.number - shared.number << top) + (there.number - local.number << self._shifts[one])
            interrupted = switches + (0 <= last != one and at[last].call is not None)
            if ((then, one, interrupted, dead) if bounded else then) not in self._seen:
                self._way.append((one, local, False))
                self._visit(after, (*at[:one], there, *at[one + 1 :]), then, one, interrupted, dead)
                self._way.pop()

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
        if len(dead) < self._crashes and (number, -1, switches, dead | {last}) not in self._seen:
            self._way.append((last, at[last], True))
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
            answer, _, lasts = shared.after.get(local.call_number) or self._do(shared, local)
            if not lasts and (call.reads & written or call.writes & (read | written | self._never)):
                continue
            if not lasts and call.writes & self._world.checked and written & self._world.checked:
                continue
            there = local.after.get(answer) or self._go_on(one, local, answer)
            if not there.did and there.error is None:
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
        number = self._answers.setdefault(repr(answer), len(self._answers))
        if number == len(self._given):
            self._given.append(answer)
        found = shared.after[local.call_number] = number, self._content(), lasts
        return found

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
            fallen = {one for one, _, died in self._way if died}
            self._way += [(one, at[one], True) for one in sorted(dead - fallen)]
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

    def _fail(self, one: int, local: Local, error: Exception) -> None:
        self._way.append((one, local, False))
        raise Broken(f"{self._actors[one].worker.name} ended with {error!r}") from error

    def _said(self, one: int, local: Local, died: bool) -> str:
        call = local.call
        return f"{self._actors[one].worker.name}: {'dies before ' if died else ''}{call.text if call else 'its end'}"
