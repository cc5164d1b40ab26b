"""A check of `blizzard doctor`, and what it finds."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

S = TypeVar("S")


class Verdict(StrEnum):
    """Skipped: there was nothing to look at, or it could not be looked at yet."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """`expected` and `advice` (a command, or a section of the documentation) are empty unless something is wrong."""

    verdict: Verdict
    found: str
    expected: str = ""
    advice: str = ""


def ok(found: str) -> Finding:
    return Finding(Verdict.OK, found)


def skipped(why: str) -> Finding:
    return Finding(Verdict.SKIPPED, why)


def warning(found: str, *, expected: str, advice: str) -> Finding:
    """Ingestion goes on as it should."""
    return Finding(Verdict.WARNING, found, expected, advice)


def problem(found: str, *, expected: str, advice: str) -> Finding:
    """Ingestion stops, or its promises do not hold, until somebody does something."""
    return Finding(Verdict.PROBLEM, found, expected, advice)


@dataclass(frozen=True, slots=True)
class Check(Generic[S]):
    """`id` (area, dot, name) is stable and documented in docs/doctor.md. `look` may raise anything: that is a problem,
    too. `needs`: ids of earlier checks of the same subject. If one of them was skipped or has a problem, this one is
    skipped."""

    id: str
    look: Callable[[S], Finding]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """`subject`: the file, source, table, bucket or stack that was looked at."""

    id: str
    subject: str
    finding: Finding

    @property
    def area(self) -> str:
        return self.id.partition(".")[0]

    @property
    def verdict(self) -> Verdict:
        return self.finding.verdict
