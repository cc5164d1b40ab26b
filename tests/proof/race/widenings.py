"""Which widenings of a race lost to another commit, as the log events of its jobs tell."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

LOST_TO_THE_SAME = "widenings that lost to another job's widening for the same source"
LOST_TO_OTHERS = "changes of the schema that lost to another commit"
WIDENED_RACES = "races over tables that were widened"
Commit = tuple[str, int]
"""Source id and sequence."""


def widened_races(place: str) -> str:
    """Name of the count."""
    return f"{WIDENED_RACES} on {place}"


class Widenings:
    """Of one race."""

    def __init__(self) -> None:
        self._jobs = 0
        self._made: dict[Commit, int] = {}
        """Which job made a commit."""
        self._widened: set[Commit] = set()
        self._lost: list[tuple[Commit, int]] = []
        """Changes of the schema, which are commits without files."""

    def note(self, events: Iterable[Mapping[str, Any]]) -> None:
        """A job has ended, with these events."""
        self._jobs += 1
        files = 0
        for event in events:
            match event["event"]:
                case "batch_read":
                    files = event["files"]
                case "race_lost" if not files:
                    self._lost.append(((event["source"], event["sequence"]), self._jobs))
                case "batch_committed":
                    self._made[event["source"], event["sequence"]] = self._jobs
                case "schema_changed" if event["widened"]:
                    self._widened.add((event["source"], event["sequence"]))

    def counts(self) -> Counter[str]:
        """Of those whose winner, a job of the same source, has logged that it widened; and of the others."""
        found: Counter[str] = Counter()
        for commit, job in self._lost:
            same = commit in self._widened and self._made.get(commit, job) != job
            found[LOST_TO_THE_SAME if same else LOST_TO_OTHERS] += 1
        return found
