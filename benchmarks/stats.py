"""Statistics of measurements: medians with spread, ratios and goals. Pure functions."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

TIMES = " \N{MULTIPLICATION SIGN}"
"""Unit of a ratio, as shown after the number."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, minimum and maximum of `count` values."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Raises ValueError when there are none."""
        if not values:
            raise ValueError("a spread needs at least one value")
        return cls(statistics.median(values), min(values), max(values), len(values))

    def __str__(self) -> str:
        if self.count == 1 or self.low == self.high:
            return number(self.median)
        return f"{number(self.median)} ({number(self.low)}..{number(self.high)})"

    def to_json(self) -> dict[str, float]:
        return {"median": self.median, "min": self.low, "max": self.high, "count": self.count}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        return cls(document["median"], document["min"], document["max"], int(document["count"]))


def ratio(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Divides round by round: both values of a pair were measured in the same round, so other load on the machine
    affects both. Extra values of the longer sequence are ignored."""
    return Spread.of([a / b for a, b in zip(above, below, strict=False)])


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that is at least as large as `share` (0 to 1) of them. Raises ValueError if there are
    no values."""
    if not values:
        raise ValueError("a percentile needs at least one value")
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1_000_000) * len(ordered) // 1_000_000) - 1)]


def number(value: float) -> str:
    """Formats with three significant digits, and commas between thousands."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Goal:
    """The limit for one measurement. `name` is the key of that measurement within its benchmark."""

    benchmark: str
    name: str
    text: str
    kind: Literal["at least", "at most"]
    limit: float
    unit: str = ""

    def met(self, measured: float) -> bool:
        return measured >= self.limit if self.kind == "at least" else measured <= self.limit


@dataclass(frozen=True, slots=True)
class GoalResult:
    """`measured` is None if the run has no such measurement; then `why_not` gives the reason. `rounds`: how many rounds
    the measurement comes from. It may exceed the number of values: a single ratio can be computed from medians."""

    goal: Goal
    measured: Spread | None
    why_not: str = ""
    rounds: int = 0

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        return "met" if self.goal.met(self.measured.median) else "not met"

    @property
    def divided(self) -> bool:
        """Whether some rounds meet the goal and others do not."""
        if self.measured is None:
            return False
        return self.goal.met(self.measured.low) != self.goal.met(self.measured.high)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.goal.name,
            "text": self.goal.text,
            "kind": self.goal.kind,
            "limit": self.goal.limit,
            "unit": self.goal.unit,
            "measured": self.measured.to_json() if self.measured else None,
            "why_not": self.why_not,
            "rounds": self.rounds,
            "verdict": self.verdict,
        }


def evaluate_goals(
    goals: Sequence[Goal], measured: dict[str, Spread], why_not: dict[str, str], *, rounds: int = 0
) -> list[GoalResult]:
    """One result per goal, also for goals without a measurement. Pass `rounds` if each measurement is a single value
    computed from that many rounds; by default a measurement has one value per round."""
    return [
        _goal_result(goal, measured.get(goal.name), why_not.get(goal.name, "not measured"), rounds) for goal in goals
    ]


def _goal_result(goal: Goal, measured: Spread | None, why_not: str, rounds: int) -> GoalResult:
    return (
        GoalResult(goal, None, why_not)
        if measured is None
        else GoalResult(goal, measured, "", rounds or measured.count)
    )
