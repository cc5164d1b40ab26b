"""A lake of the campaign `rebuild`, and the processes that work on it, alone or two at once."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.proof.campaign import Failed, Run
from tests.proof.kill.fork_server import KILLED, ForkedProcess, ForkServer
from tests.proof.kill.jvm import Jvm
from tests.proof.rebuild.lake import Lake
from tests.proof.rebuild.processes import JOB, MOVER, RESTORER

KILLS, SWAPS, REFUSED, RACES = "kills", "tables swapped", "swaps refused, as rows would have been lost", "races"
RESTORED, TAKEN_BACK = "states rebuilt after a loss", "times that a table took its place back"
WHO = (JOB, MOVER, RESTORER)
STEPS = ("between two calls of storage", "before the commit", "after the commit and before its answer")
MOST_CALLS, MOST_COMMITS = 60, 4
"""Of storage, and of Delta, before a process is killed."""
MOST_FILES = 4
"""That land before a process starts."""
OF_SPARK, OF_LOCAL = "processes with Spark", "processes with the local engine"
SHARE_OF_SPARK = 0.4
"""Of the processes of a world that has a JVM."""
SHARE_ARCHIVED, SHARE_LOST, SHARE_KILLED, SHARE_RACES, SHARE_BACK = 0.03, 0.15, 0.6, 0.3, 0.3
MOVED = "has taken the place of this table"
"""Of the error about it."""
SAID = 2_000
"""Characters of what a process said, in a failure."""


@dataclass
class World:
    """`rng`: of the round. `jvm`: for the processes whose engine is Spark; without it there are none."""

    run: Run
    fork_server: ForkServer
    folder: Path
    rng: random.Random
    jvm: Jvm | None = None
    done: list[str] = field(default_factory=list)
    table: str = "table-0"
    """That the configuration names, as far as known: a mover who was killed may have changed it."""
    to: str = ""
    """That is to take its place, once somebody has begun it."""
    left: list[tuple[str, Path]] = field(default_factory=list)
    """Tables whose place was taken, and the configurations that still name them."""
    made: int = 0
    """Tables, besides the first one."""
    seed: str = ""
    said: str = ""
    """The end of what the last process said."""
    refused: bool = False
    """Whether it was an operator who was told that rows would be lost."""

    def __post_init__(self) -> None:
        self.lake = Lake(self.folder)
        self.seed = f"seed {self.run.seed}"

    # -- with kills

    def turn(self) -> None:
        for _ in range(self.rng.randint(0, MOST_FILES)):
            self.done.append(self.lake.land(self.rng, self.run))
        if self.table in self.lake.tables and self.rng.random() < SHARE_ARCHIVED:
            self.done.append(self.lake.archive(self.table, self.rng) or "nothing is archived")
        if self.table in self.lake.tables and self.rng.random() < SHARE_LOST:
            self._lose_and_restore()
        racing = self.rng.random() < SHARE_RACES
        who = [self.rng.choice((JOB, MOVER)) for _ in range(1 + racing)]
        self.run.counts[RACES] += racing
        self._end(who, [self._start(each, dies=self.rng.random() < SHARE_KILLED) for each in who])

    def _lose_and_restore(self) -> None:
        """No job commits before the state is whole again."""
        self.done.append(self.lake.lose(self.table, self.rng))
        for _ in range(self.rng.randint(0, 2)):
            self._end([RESTORER], [self._start(RESTORER, dies=True)])
        self._restore()

    def _restore(self) -> None:
        """Refused for a table whose place another one has taken: who moves it finds out what it has, too."""
        if not self._alone(RESTORER):
            self.run.counts[RESTORED] += 1
        elif not self.to or MOVED not in self.said:
            self.fail(f"a state that was lost is not rebuilt: {self.said}")

    def _start(self, who: str, *, dies: bool = False, config: Path | None = None) -> ForkedProcess:
        step = self.rng.choice(STEPS) if dies else ""
        most = MOST_CALLS if step == STEPS[0] else MOST_COMMITS
        if who == MOVER and not self.to:
            self._choose_target()
        nth, seed = self.rng.randint(1, most), str(self.rng.random())
        # By a generator of its own: the rest of the round is the same without Spark.
        has_spark = self.jvm is not None and random.Random(f"engine {seed}").random() < SHARE_OF_SPARK
        self.run.counts[OF_SPARK if has_spark else OF_LOCAL] += 1
        return self.fork_server.start(
            "tests.proof.rebuild.processes:run_process",
            environment=self.jvm.environment if self.jvm is not None and has_spark else {},
            who=who,
            config=str(config or self.lake.config),
            step=step,
            nth=nth,
            seed=seed,
            variant=self.run.variant,
            to=self.lake.uri(self.to) if who == MOVER else "",
            has_spark=has_spark,
        )

    def _choose_target(self) -> None:
        """A new table, or one that is to take its place back."""
        if self.left and self.rng.random() < SHARE_BACK:
            self.to = self.left.pop(self.rng.randrange(len(self.left)))[0]
            return
        self.made += 1
        self.to = f"table-{self.made}"

    def _end(self, who: Sequence[str], processes: Sequence[ForkedProcess]) -> None:
        for name, process in zip(who, processes, strict=True):
            self._ended(name, process)
        self._look_at_the_configuration()

    def _ended(self, who: str, process: ForkedProcess) -> int:
        ended, text, events = process.wait(), process.log.read_text(), process.events()
        process.log.unlink()
        self.done.append(f"{who}: {'killed' if ended == KILLED else f'exit code {ended}'}")
        if ended not in (KILLED, 0, 1) or "Traceback" in text:
            self.fail(f"a {who} ended with {ended}: {text[-SAID:]}")
        if ended == KILLED:
            self.run.counts[KILLS] += 1
            self.run.counts[f"kills of the {who}"] += 1
        self.run.counts[TAKEN_BACK] += any("taken_back" in event for event in events)
        self.said, self.refused = text[-SAID:], any(_would_lose_rows(event) for event in events)
        return ended

    def _look_at_the_configuration(self) -> None:
        text = self.lake.config.read_text()
        if not self.to or f'"{self.lake.uri(self.to)}"' not in text:
            return
        old = self.lake.folder / f"with-{self.table}.yaml"
        old.write_text(text.replace(f'"{self.lake.uri(self.to)}"', f'"{self.lake.uri(self.table)}"'))
        self.left.append((self.table, old))
        self.table, self.to = self.to, ""
        self.run.counts[SWAPS] += 1
        self.done.append(f"the configuration names {self.table}")

    def _alone(self, who: str, config: Path | None = None) -> int:
        ended = self._ended(who, self._start(who, config=config))
        self._look_at_the_configuration()
        return ended

    # -- without

    def finish(self) -> None:
        """What was begun is brought to its end, what is still to be read is read, and everything is compared."""
        if self.to:
            self._move_to_the_end()
        if ended := self._alone(JOB):
            self.fail(f"a job of the table that the configuration names ended with {ended}: {self.said}")
        missing, more = self.lake.differences(self.table)
        if missing or more:
            self.fail(f"missing {missing[:3]}, doubled or unexpected {more[:3]}, in {self.table}")
        if silent := self.lake.silent(self.table):
            self.fail(f"refused records without one letter: {silent[:3]}")
        for table, config in self.left:
            self._check_left(table, config)
        self.done.clear()

    def _move_to_the_end(self) -> None:
        if self._alone(MOVER) == 0:
            return
        if not (self.refused and self.lake.gone):
            self.fail(f"nobody was killed, and the tables were not swapped: {self.said}")
        self.run.counts[REFUSED] += 1

    def _check_left(self, table: str, config: Path) -> None:
        """Nobody commits to it any more, and its jobs say so."""
        if self._alone(JOB, config) != 1:
            self.fail(f"a job commits to {table}, whose place was taken")
        if there := {source for source, to in self.lake.moved_to(table).items() if to is None}:
            self.fail(f"a job commits to {table}, whose place was taken: {sorted(there)}")

    def fail(self, why: str) -> None:
        raise Failed(why, [self.seed, *self.done])


def _would_lose_rows(event: dict[str, object]) -> bool:
    """Whether an operator was told so."""
    compared = event.get("compared")
    return isinstance(compared, dict) and not event["complete"] and bool(compared["gone"] or compared["refused"])
