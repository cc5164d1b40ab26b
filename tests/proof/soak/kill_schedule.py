"""Which process a soak kills after which round: the job at any time, its JVM only once its growth can be judged."""

import random
from enum import Enum

from tests.proof.campaign import Run

KILL_SHARE, JVM_SHARE = 1 / 150, 1 / 1500
"""Share of the rounds after which the job, or all of Spark, is killed. Rare, because growth shows only in a process
that runs for long."""
YOUNG = range(10, 40)
"""All of Spark is killed once after one of these rounds, so that an early kill is covered."""
JVM_ROUNDS = 1_200
"""Minimum rounds of any other JVM: enough samples to check each of its bounds."""
SHORT_KILL = 15
"""The round with a kill in a run with a fixed number of rounds."""


class Victim(Enum):
    JOB = "the job"
    SPARK = "all of Spark"


class KillSchedule:
    """Depends on the seed alone."""

    def __init__(self, run: Run) -> None:
        self._sound = not run.variant
        self._short = run.budget.rounds is not None
        self._young = random.Random(f"{run.seed}/Spark").choice(YOUNG)
        self._jvm_began = 0

    def after(self, number: int, rng: random.Random) -> Victim | None:
        """What to kill after this round; None: nothing."""
        if self._short:
            return Victim.JOB if number == SHORT_KILL and self._sound else None
        old = number - self._jvm_began >= JVM_ROUNDS
        if rng.random() < JVM_SHARE * old or (self._sound and number == self._young):
            self._jvm_began = number
            return Victim.SPARK
        return Victim.JOB if rng.random() < KILL_SHARE else None
