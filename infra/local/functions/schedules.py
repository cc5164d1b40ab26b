"""Schedule expressions of EventBridge Scheduler: rate(…) and numeric cron(…)."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

RATE = re.compile(r"rate\((\d+) (minute|minutes|hour|hours|day|days)\)")
CRON = re.compile(r"cron\((\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\)")
UNIT_SECS = {"minute": 60, "hour": 3600, "day": 86400}
MINUTE_SECS = 60


class UnsupportedSchedule(Exception):
    """An expression that this module cannot evaluate."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Every `secs`, counted from the schedule's creation."""

    secs: int

    def next_after(self, ts: float, created_ts: float) -> float:
        return created_ts + (int((ts - created_ts) // self.secs) + 1) * self.secs


@dataclass(frozen=True, slots=True)
class Cron:
    """In UTC. Weekdays as AWS numbers them: 1 is Sunday."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    def next_after(self, ts: float, created_ts: float) -> float:
        """The next minute after `ts`, within a year. Raises UnsupportedSchedule if there is none."""
        minute = int(ts // MINUTE_SECS) + 1
        for number in range(minute, minute + 366 * 24 * 60):
            if self._matches(datetime.fromtimestamp(number * MINUTE_SECS, UTC)):
                return float(number * MINUTE_SECS)
        raise UnsupportedSchedule(f"{self}: found no minute within a year that matches; check its days and months")

    def _matches(self, when: datetime) -> bool:
        return (
            when.minute in self.minutes
            and when.hour in self.hours
            and when.day in self.days
            and when.month in self.months
            and when.isoweekday() % 7 + 1 in self.weekdays
        )


def parse_schedule(expression: str) -> Rate | Cron:
    """Raises UnsupportedSchedule."""
    if found := RATE.fullmatch(expression):
        return Rate(int(found[1]) * UNIT_SECS[found[2].removesuffix("s")])
    if found := CRON.fullmatch(expression):
        minute, hour, day, month, weekday, year = found.groups()
        if year == "*":
            return Cron(
                _numbers(minute, 0, 59),
                _numbers(hour, 0, 23),
                _numbers(day, 1, 31),
                _numbers(month, 1, 12),
                _numbers(weekday, 1, 7),
            )
    raise UnsupportedSchedule(f"{expression}: expected an expression such as rate(5 minutes) or cron(0/5 * * * ? *)")


def _numbers(field: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        try:
            start = low if first in ("*", "?") else int(first)
            end = high if first in ("*", "?") or step else start
            found.update(range(start, (int(last) if last else end) + 1, int(step or 1)))
        except ValueError:
            raise UnsupportedSchedule(f"{field}: expected numbers, found {part!r}") from None
    return frozenset(number for number in found if low <= number <= high)
