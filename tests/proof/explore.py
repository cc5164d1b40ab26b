"""Every interleaving of a few processes that share storage, with a crash after any step.

A process runs on a thread of its own and stops before each call to what is shared. What it does next follows from what
it was answered so far, so a state is what is shared and, for each process, the digest of its answers. A way that leads
to a state that was seen before is not followed any further.
"""

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Killed(BaseException):
    """The process dies here. Whatever it still tries to do has no effect."""


class Broken(AssertionError):
    """An invariant does not hold."""


class Process:
    """Moves from one call to the next when told to."""

    def __init__(self, name: str, work: Callable[["Process"], object]) -> None:
        self.name = name
        self.next_call = ""
        """What it is about to do; empty once it has ended."""
        self.seen: Hashable = ()
        """A digest of all that it was answered."""
        self.error: BaseException | None = None
        self.killed = False
        self._work = work
        self._go, self._there = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._there.acquire()

    @property
    def ended(self) -> bool:
        return not self.next_call

    def step(self) -> None:
        """Do the next call, and all that follows from it alone."""
        self._go.release()
        self._there.acquire()

    def kill(self) -> None:
        self.killed = True
        while not self.ended:
            self.step()

    def shares(self, call: str, do: Callable[[], Any]) -> Any:
        """Called by the process itself: a call to something that others use, too."""
        self.next_call = call
        self._there.release()
        self._go.acquire()
        if self.killed:
            raise Killed
        try:
            answer = do()
        except Exception as error:
            self.seen = hash((self.seen, call, repr(error)))
            raise
        self.seen = hash((self.seen, call, repr(answer)))
        return answer

    def _run(self) -> None:
        try:
            self._work(self)
        except Killed:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, the process has ended with it
            self.error = error
        self.next_call = ""
        self._there.release()


class World(Protocol):
    """Made anew for each way that is tried; the same each time."""

    processes: Sequence[Process]

    def shared(self) -> Hashable:
        """What the processes have in common, as it is now."""
        ...

    def check(self) -> None:
        """Raises Broken where an invariant does not hold in this state."""
        ...

    def finish(self) -> None:
        """All processes have ended. Raises Broken if what is there does not lead to a good end."""
        ...


@dataclass(frozen=True, slots=True)
class Move:
    """A process takes a step, or dies instead."""

    process: int
    dies: bool = False


@dataclass(frozen=True, slots=True)
class _Way:
    """Moves from the beginning, sharing what they have in common."""

    before: "_Way | None"
    move: Move
    switches: int

    def moves(self) -> list[Move]:
        found, way = [], self
        while way is not None:
            found.append(way.move)
            way = way.before  # type: ignore[assignment]
        return found[::-1]


class Found(AssertionError):
    """A way to a state in which an invariant does not hold."""

    def __init__(self, why: str, steps: Sequence[str]) -> None:
        super().__init__("\n".join([why, *(f"{number:4}. {step}" for number, step in enumerate(steps, 1))]))
        self.why = why
        self.steps = steps


@dataclass(slots=True)
class Explored:
    """What was looked at."""

    states: int = 0
    steps: int = 0
    """Between two states, each counted once."""
    ends: int = 0
    """States in which all processes have ended, each swept and drained to a good end."""
    crashes: int = 0
    ways: int = 0
    complete: bool = True


def explore(
    make: Callable[[], World],
    *,
    crashes: int = 0,
    switches: int | None = None,
    stop: Callable[[Explored], bool] = lambda explored: False,
) -> Explored:
    """Visit every state that up to `crashes` deaths can lead to. `switches` bounds how often a process may be
    interrupted that could go on; None: any number. `stop` may end it early. Raises Found."""
    explored, seen = Explored(), set[Hashable]()
    pending: list[_Way | None] = [None]
    while pending:
        if stop(explored):
            explored.complete = False
            break
        _follow(make, pending.pop(), pending, seen, explored, crashes, switches)
    return explored


def smallest(make: Callable[[], World], *, crashes: int, most_switches: int = 6) -> Found | None:
    """A reproduction with as few deaths and interruptions as any."""
    for deaths in range(crashes + 1):
        for switches in range(most_switches + 1):
            try:
                explore(make, crashes=deaths, switches=switches)
            except Found as found:
                return found
    return None


def _follow(
    make: Callable[[], World],
    way: _Way | None,
    pending: list[_Way | None],
    seen: set[Hashable],
    explored: Explored,
    crashes: int,
    switches: int | None,
) -> None:
    """Go the way, and on from there to a state that is known or to an end; note what branches off."""
    world = make()
    said: list[str] = []
    explored.ways += 1
    try:
        said += [_take(world, move) for move in (way.moves() if way is not None else ())]
        if way is not None:
            explored.steps += 1
            explored.crashes += way.move.dies
        while True:
            deaths = sum(process.killed for process in world.processes)
            last = way.move.process if way is not None else None
            state = (world.shared(), deaths, tuple(None if p.ended else (p.seen, p.next_call) for p in world.processes))
            bounded = (*state, last, way.switches if way is not None else 0) if switches is not None else state
            if bounded in seen:
                return
            seen.add(bounded)
            explored.states += 1
            world.check()
            moves = [*_moves(world, way, crashes - deaths, switches)]
            if not moves:
                world.finish()
                explored.ends += 1
                return
            pending += [_on(world, way, move) for move in moves[1:]]
            way = _on(world, way, moves[0])
            said.append(_take(world, way.move))
            explored.steps += 1
            explored.crashes += way.move.dies
    except Broken as error:
        raise Found(str(error), said) from error
    finally:
        for process in world.processes:
            process.kill()


def _moves(world: World, way: _Way | None, crashes: int, switches: int | None) -> Iterator[Move]:
    """What may come next; whoever moved last goes first."""
    last = way.move.process if way is not None else None
    alive = [number for number, process in enumerate(world.processes) if not process.ended]
    alive.sort(key=lambda number: number != last)
    spent = switches is not None and last in alive and way is not None and way.switches >= switches
    for number in alive[:1] if spent else alive:
        yield Move(number)
    if crashes:
        for number in alive:
            yield Move(number, dies=True)


def _on(world: World, way: _Way | None, move: Move) -> _Way:
    last = way.move.process if way is not None else None
    interrupts = last is not None and move.process != last and not world.processes[last].ended and not move.dies
    return _Way(way, move, (way.switches if way is not None else 0) + interrupts)


def _take(world: World, move: Move) -> str:
    process = world.processes[move.process]
    said = f"{process.name}: {'dies before ' if move.dies else ''}{process.next_call}"
    if move.dies:
        process.kill()
    else:
        process.step()
    if process.error is not None:
        raise Broken(f"{process.name} ended with {process.error!r}") from process.error
    return said
