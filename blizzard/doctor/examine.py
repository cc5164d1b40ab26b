"""Runs checks one by one: one that fails hides no other."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from blizzard.doctor.check import Check, Finding, Result, Verdict, problem, skipped
from blizzard.errors import BlizzardError
from blizzard.log import first_line

S = TypeVar("S")
MAX_ERROR_CHARS = 500

OnCheck = Callable[[str, str], None]
"""Called before each check, with its id and its subject."""


def examine(name: str, subject: S, checks: Iterable[Check[S]], on_check: OnCheck) -> Iterator[Result]:
    """Every check of one subject, in order."""
    unanswered: set[str] = set()
    for check in checks:
        first = next((needed for needed in check.needs if needed in unanswered), None)
        on_check(check.id, name)
        finding = skipped(f"{first} has no good answer") if first else _look(check, subject)
        if finding.verdict in (Verdict.PROBLEM, Verdict.SKIPPED):
            unanswered.add(check.id)
        yield Result(check.id, name, finding)


def _look(check: Check[S], subject: S) -> Finding:
    try:
        return check.look(subject)
    except Exception as error:  # noqa: BLE001 - the next check has to run whatever this one met
        return problem(
            f"the check failed: {error_text(error)}",
            expected="a check that can be made",
            advice="correct what it names, then run `blizzard doctor` again",
        )


def error_text(error: Exception) -> str:
    """Further lines of AWS's errors may hold the request with its session token. Blizzard's own errors say enough
    without their kind."""
    text = first_line(str(error))
    return (text if isinstance(error, BlizzardError) else f"{type(error).__name__}: {text}")[:MAX_ERROR_CHARS]
