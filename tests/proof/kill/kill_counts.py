"""Names and counts of kills: by step, by place, and by what was killed (driver, JVM, or both)."""

from collections import Counter
from dataclasses import dataclass

from tests.proof.kill.names import LOST_ANSWER, Whom

MOST_KILLS = "most kills over one table"
OUTLIVED = "drivers that outlived their JVM"
WIDENED_TABLE = "a table that is widened"
"""In place of the name of its place."""
BEFORE_ITS_ROWS = "kills between a widening and the rows that asked for it"


@dataclass(frozen=True, slots=True)
class PlannedKill:
    """`seed` decides which files land before it, and every other random choice."""

    step: str
    nth: int
    seed: str
    whom: Whom


def kills(step: str, place: str) -> str:
    """Name of the count."""
    return f"answers of commits lost on {place}" if step == LOST_ANSWER else f"kills {step} on {place}"


def jvm_deaths(step: str) -> str:
    """Name of the count of killed JVMs that a job had begun to use, with their driver or alone."""
    return f"JVM deaths {step}"


def count(counts: Counter[str], step: str, place: str, whom: Whom, *, in_use: bool) -> None:
    """Counts one kill. `in_use`: the job had begun to use the JVM; the kill of an unused one shows nothing."""
    driver, jvm = whom is not Whom.JVM, whom is not Whom.JOB
    counts["kills"] += 1
    counts[f"kills on {place}"] += 1
    counts[kills(step, place)] += 1
    counts["kills with the JVM"] += jvm
    counts[OUTLIVED] += not driver
    counts[f"driver deaths {step}"] += driver
    counts[jvm_deaths(step)] += jvm and in_use
    counts[f"deaths of both {step}"] += driver and jvm and in_use
