"""Who has died at which step: the job's driver, the JVM with its Spark, or both; and what a run has to have seen."""

from collections import Counter
from dataclasses import dataclass

from tests.proof.kill.names import LOST_ANSWER, Whom

MOST_KILLS = "most kills over one table"
OUTLIVED = "drivers that outlived their JVM"


@dataclass(frozen=True, slots=True)
class Death:
    """Of one life. `seed`: of what lands before it, and of what it leaves to luck."""

    step: str
    nth: int
    seed: str
    whom: Whom


def kills(step: str, place: str) -> str:
    """The name of the count."""
    return f"answers of commits lost on {place}" if step == LOST_ANSWER else f"kills {step} on {place}"


def jvm_deaths(step: str) -> str:
    """The name of the count: of JVMs that a job had begun to work with, with their driver or without."""
    return f"JVM deaths {step}"


def count(counts: Counter[str], step: str, place: str, whom: Whom, *, in_use: bool) -> None:
    """Somebody has died. `in_use`: the job had begun to work with the JVM; the death of another one shows nothing."""
    driver, jvm = whom is not Whom.JVM, whom is not Whom.JOB
    counts["kills"] += 1
    counts[f"kills on {place}"] += 1
    counts[kills(step, place)] += 1
    counts["kills with the JVM"] += jvm
    counts[OUTLIVED] += not driver
    counts[f"driver deaths {step}"] += driver
    counts[jvm_deaths(step)] += jvm and in_use
    counts[f"deaths of both {step}"] += driver and jvm and in_use
