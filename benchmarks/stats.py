"""What measurements are made into: medians with their spread, ratios of neighbours in time, and goals. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

TIMES = " \N{MULTIPLICATION SIGN}"
"""The unit of ratios."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A median of `count` values, between the lowest and the highest of them."""

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
    """Value by value: the two that are divided were measured in the same round, one after the other, so what else the
    machine did then weighs on both. The extra values of the longer one are left out."""
    return Spread.of([a / b for a, b in zip(above, below, strict=False)])


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of them do not exceed. Raises ValueError without any."""
    if not values:
        raise ValueError("a percentile needs at least one value")
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1_000_000) * len(ordered) // 1_000_000) - 1)]


def number(value: float) -> str:
    """Three digits that matter, thousands with commas."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Goal:
    """What a measurement must reach. `name` is that of the measurement within its benchmark."""

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
    """A goal beside what was measured; None: this run has no such measurement, and why. `rounds`: on how many the
    measurement rests, which may be more than it has values: one may be of medians."""

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
        """Whether the verdict is that of the median, but not of every round."""
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
    """Each goal with its measurement; one that is missing is said to be, never left out. `rounds`: of all of them,
    where a measurement is one value of several rounds; otherwise as many as it has values."""
    return [
        _goal_result(goal, measured.get(goal.name), why_not.get(goal.name, "not measured"), rounds) for goal in goals
    ]


def _goal_result(goal: Goal, measured: Spread | None, why_not: str, rounds: int) -> GoalResult:
    return (
        GoalResult(goal, None, why_not)
        if measured is None
        else GoalResult(goal, measured, "", rounds or measured.count)
    )
