"""The engines of a campaign's jobs, and the names of what is counted by engine."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.proof.campaign import Failed, Fault, Run

JOBS_OF = {"spark": "jobs that commit with Spark", "auto": "jobs that commit with the local engine if they can"}
"""Counts, by the engine that the job is started with."""
SPARK, LOCAL, HELPED = "Spark", "the local engine", "the local engine that needed Spark"
"""By which engine a job ran, as its events show it."""
BY = {"spark": SPARK, "auto": LOCAL}
"""What shows that a job with this engine ran as it should."""


def ran_by(engine: str, events: Iterable[Mapping[str, Any]]) -> str:
    """`engine`: the one that the job was started with."""
    needed = any(event["event"] == "spark_needed" for event in events)
    return HELPED if engine != "spark" and needed else BY[engine]


def mix(engines: Collection[str]) -> str:
    """Name of these together, each as `ran_by` names it."""
    return " and ".join(each for each in (SPARK, LOCAL, HELPED) if each in engines)


# -- what is broken on purpose


def found_with(engine: str) -> str:
    """Name of the count of a broken variant that was found, by the engine of its jobs."""
    return f"found with jobs of {BY[engine]}"


def found_by(fault: Fault, go: Callable[[], object]) -> Failed | None:
    """How `go` fails by this fault; None: it does not. Raises Failed if it fails otherwise."""
    try:
        go()
    except Failed as failed:
        if fault.finds(failed.why):
            return failed
        raise
    return None


def find_with_each(run: Run, fault: Fault, go: Callable[[str], object]) -> None:
    """`go`: attacks the broken variant with jobs of an engine. Raises Failed as the last engine shows the fault, if
    each of them does, or if one fails otherwise."""
    found: list[Failed] = []
    for engine in JOBS_OF:
        run.say(f"jobs of {BY[engine]}")
        failed = found_by(fault, lambda engine=engine: go(engine))  # type: ignore[misc]
        if failed is None:
            return
        run.counts[found_with(engine)] += 1
        found.append(failed)
    raise Failed(found[-1].why, [step for failed in found for step in failed.steps]) from found[-1]


# -- one dies or gives up, and another one goes on


def kills_of(by: str) -> str:
    """Name of the count."""
    return f"kills of jobs of {by}"


def kills_at(step: str, by: str) -> str:
    """Name of the count."""
    return f"{kills_of(by)} {step}"


def resumed(killed: str, by: str) -> str:
    """Name of the count of jobs that recovered what a killed one had left, by the engines of both."""
    return f"kills of {killed} after which {by} went on"


def known_again(by: str) -> str:
    """Name of the count of commits whose answers were lost, and which were found in the log."""
    return f"answers lost of a Delta commit of {by} that was known again"


def went_on(gave_up: str, by: str) -> str:
    """Name of the count of runs that ended well after one that did not, by the engines of both."""
    return f"runs of {by} that ended well after one of {gave_up} gave up"


RESUMED_BY_THE_OTHER = (resumed(SPARK, LOCAL), resumed(LOCAL, SPARK))
WENT_ON_FOR_THE_OTHER = (went_on(SPARK, LOCAL), went_on(LOCAL, SPARK))

# -- some race


def races_of(engines: Collection[str]) -> str:
    """Name of the count of races, by the engines of the jobs of one source."""
    return f"races of jobs of {mix(engines)}"


def lost_to(loser: str, winner: str) -> str:
    """Name of the count of races for one sequence."""
    return f"races that {loser} lost to {winner}"


LOST_TO_THE_OTHER = (lost_to(SPARK, LOCAL), lost_to(LOCAL, SPARK))
RACES = (races_of({SPARK}), races_of({LOCAL}), races_of({SPARK, LOCAL}))


@dataclass
class Racers:
    """The jobs of one race, by engine."""

    ran: dict[str, set[str]] = field(default_factory=dict)
    """By source id."""
    won: dict[tuple[str, int], str] = field(default_factory=dict)
    """By source id and sequence."""
    lost: list[tuple[tuple[str, int], str]] = field(default_factory=list)

    def note(self, source_id: str, engine: str, events: Iterable[Mapping[str, Any]]) -> None:
        """A job has ended. `engine`: the one that it was started with; `events`: all of its log."""
        events = [*events]
        by = ran_by(engine, events)
        self.ran.setdefault(source_id, set()).add(by)
        for event in events:
            if event["event"] == "batch_committed":
                self.won[event["source"], event["sequence"]] = by
            elif event["event"] == "race_lost":
                self.lost.append(((event["source"], event["sequence"]), by))

    def counts(self, source_id: str) -> Counter[str]:
        """Of the race for this source, and of all sequences whose winner has logged it."""
        found = Counter([races_of(self.ran[source_id])])
        found.update(lost_to(by, self.won[sequence]) for sequence, by in self.lost if sequence in self.won)
        return found
