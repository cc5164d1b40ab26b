"""Campaign `race-calls`: collectors, sweepers, dispatchers and jobs as processes that work on one manifest and one
table at once, over the product's own code and local files."""

import re
import time
from collections import Counter
from dataclasses import dataclass

from blizzard.dispatch.service import RunStatus
from tests.proof.breaks import OVERWRITING_LOG, TXN_NOT_COMPARED, UNCONDITIONAL_PUT
from tests.proof.campaign import Fault, Run
from tests.proof.kill.fork_server import ForkedProcess, ForkServer
from tests.proof.kill_calls.operator import NOT_LOOKED_UP
from tests.proof.kill_calls.processes import LEDGER_BREAKER, OPERATOR
from tests.proof.kill_calls.world import LETTERS_SETTLED, PUT_BACK, World
from tests.proof.ledger.breaks import LOST_MERGED

TURNS = 6
"""Races of a round, before the comparison."""
COLLECTORS = ("collector", "collector", "collector", "dispatcher", "dispatcher")
SWEEPERS = ("sweeper", "sweeper", "late sweeper")
SHARE_OF_DAMAGES = 0.3
"""Of the races: somebody damages the ledger meanwhile."""
PAUSE_SECS = 0.003
START_SECS = 0.01
"""Within which a process is forked."""
WRITTEN, RANGE_OF_RUN = "ledger_run_written", re.compile(r"\d+-\d+")
TWO_MERGERS = "merges of the same commits by two jobs at once"
"""A run is the same, whoever merges it: its commits decide what is in it. It is another one if a job merges a commit
that lost its race: LOST_MERGED."""
VARIANTS = {
    OVERWRITING_LOG: Fault(
        "of two jobs that commit the same version the first one's rows are gone",
        r"^a job believes to have committed what is not in the log|^doubled: \[",
    ),
    TXN_NOT_COMPARED: Fault("two jobs that planned from the same checkpoint both commit", r"^doubled: \["),
    UNCONDITIONAL_PUT: Fault(
        "of two writers of the same segment the first one's entries are gone",
        r"^collected, and after a job neither in the table nor dead-lettered",
    ),
    NOT_LOOKED_UP: Fault("two operators put the same record back", r"^doubled: \["),
    LOST_MERGED: Fault(
        "the run has files of the job that lost, which are not in the table, and lacks those of the other job",
        r"^collected, and after a job neither in the table nor dead-lettered|^missing \[\(|^doubled: \[",
    ),
}


class _World(World):
    raced = 0

    def turn(self) -> None:
        """All processes at once, with 2 to 4 jobs, without kills."""
        for _ in range(self.rng.randint(4, 14)):
            self.land()
        # Sweeps would make good at once what collectors do to each other.
        racers = COLLECTORS + (SWEEPERS if self.raced and self.rng.random() < 0.5 else ())
        breakers = [LEDGER_BREAKER] * (self.rng.random() < SHARE_OF_DAMAGES)
        operators = [OPERATOR] * self.rng.choice([0, 1, 2])
        who = [*racers, *["job"] * self.rng.randint(2, 4), *operators, *breakers]
        self.rng.shuffle(who)
        told = {number: self._received() for number, name in enumerate(who) if name == "collector"}
        begin_ts = time.time() + START_SECS * len(who)
        started = [(name, self._start(name, told.get(number, []), begin_ts)) for number, name in enumerate(who)]
        gone: set[str] = set()
        merged: Counter[str] = Counter()
        for number, (name, process) in enumerate(started):
            if (ended := process.wait()) != 0:
                self.fail(f"a {name} ended with {ended}: {process.log.read_text()[-1500:]}")
            gone |= {message_id for message_id, _ in told.get(number, [])}
            events = process.events()
            self.believe(events)
            merged.update(RANGE_OF_RUN.match(event["run"])[0] for event in events if event["event"] == WRITTEN)  # type: ignore[index]
            for event in events:
                self.run.counts["races lost"] += event.get("lost_races", 0)
                self.run.counts["commits"] += event.get("commits", 0)
            process.log.unlink()
        again = [message for message in self.queue if message[0] in gone and self.rng.random() < 0.1]
        self.acknowledge(gone)
        self.queue += again
        self.run.counts[TWO_MERGERS] += sum(count > 1 for count in merged.values())
        self.run.counts["races"] += 1
        self.raced += 1
        self.run.counts["racers"] += len(started)
        self.done.append(f"at once: {', '.join(who)}")
        self.check_runs()
        self._end_run(RunStatus.SUCCEEDED)
        self.check_served()

    def _start(self, who: str, messages: list[list[str]], begin_ts: float) -> ForkedProcess:
        return self.start(who, messages, pause_secs=PAUSE_SECS, begin_ts=begin_ts)


@dataclass(frozen=True)
class RaceCalls:
    name = "race-calls"
    about = "collectors, sweepers, dispatchers and jobs at once on one manifest and one table"
    variants = VARIANTS
    wanted = (TWO_MERGERS, PUT_BACK, LETTERS_SETTLED)

    def run(self, run: Run) -> None:
        with ForkServer(run.folder / "processes", ["tests.proof.kill_calls.processes"]) as fork_server:
            for number, rng in run.rounds():
                run.say(f"races of {', '.join(sorted({*COLLECTORS, *SWEEPERS, 'job'}))}: round {number}")
                world = _World(run, fork_server, run.folder / f"round-{number}", rng)
                for _ in range(TURNS):
                    world.turn()
                world.finish()


CAMPAIGN = RaceCalls()
