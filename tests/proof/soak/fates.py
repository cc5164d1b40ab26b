"""Who is killed in a soak, and when: the job at any time, its JVM never before its growth can be judged."""

import random
from enum import Enum

from tests.proof.campaign import Run

KILL_SHARE, JVM_SHARE = 1 / 150, 1 / 1500
"""Of the rounds, after which the job or all of Spark is killed. A life has to last for its growth to be seen."""
YOUNG = range(10, 40)
"""After one of these rounds all of Spark is killed for sure, before it has lived for long."""
JVM_ROUNDS = 1_200
"""Any other JVM lives for as long at least: then each of its bounds has been held against enough samples."""
SHORT_KILL = 15
"""The round with a kill where their number is bounded."""


class Dies(Enum):
    JOB = "the job"
    SPARK = "all of Spark"


class Fates:
    """The seed alone decides."""

    def __init__(self, run: Run) -> None:
        self._sound = not run.variant
        self._short = run.budget.rounds is not None
        self._young = random.Random(f"{run.seed}/Spark").choice(YOUNG)
        self._jvm_began = 0

    def after(self, number: int, rng: random.Random) -> Dies | None:
        """Who dies after the round of this number."""
        if self._short:
            return Dies.JOB if number == SHORT_KILL and self._sound else None
        old = number - self._jvm_began >= JVM_ROUNDS
        if rng.random() < JVM_SHARE * old or (self._sound and number == self._young):
            self._jvm_began = number
            return Dies.SPARK
        return Dies.JOB if rng.random() < KILL_SHARE else None
