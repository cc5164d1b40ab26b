"""What `blizzard doctor` has found: as one JSON document, and as lines for people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from blizzard.doctor.check import Result, Verdict
from blizzard.log import one_line

AREAS: Mapping[str, str] = {
    "configuration": "Configuration",
    "storage": "Storage",
    "table": "Tables",
    "state": "State",
    "topics": "Topics",
    "aws": "AWS",
}
"""In the order of the report, each with its title."""
WORST_FIRST = (Verdict.PROBLEM, Verdict.WARNING, Verdict.OK)


@dataclass(frozen=True, slots=True)
class Report:
    """`examined_ts`: Unix seconds."""

    file: str
    stack: str | None
    examined_ts: float
    results: Sequence[Result]

    @property
    def verdict(self) -> Verdict:
        """The worst one. What was skipped does not count."""
        found = {result.verdict for result in self.results}
        return next((verdict for verdict in WORST_FIRST if verdict in found), Verdict.OK)

    @property
    def is_configuration_wrong(self) -> bool:
        return any(one.id == "configuration.valid" and one.verdict is Verdict.PROBLEM for one in self.results)

    def count(self, verdict: Verdict) -> int:
        return sum(result.verdict is verdict for result in self.results)

    def as_document(self) -> dict[str, Any]:
        when = datetime.fromtimestamp(self.examined_ts, UTC).isoformat(timespec="seconds")
        return {
            "file": self.file,
            "stack": self.stack,
            "examined_at": when,
            "verdict": str(self.verdict),
            "counts": {str(verdict): self.count(verdict) for verdict in Verdict},
            "checks": [_check(result) for result in self.results],
        }

    def areas(self) -> Iterator[tuple[str, list[Result]]]:
        """Each area's title with its results, without areas that have none."""
        for area, title in AREAS.items():
            if found := [result for result in self.results if result.area == area]:
                yield title, found

    def lines(self) -> Iterator[str]:
        """Names of objects and texts of AWS are escaped."""
        for title, results in self.areas():
            yield title
            for result in results:
                yield from map(one_line, _lines(result))
            yield ""
        yield self.summary()

    def summary(self) -> str:
        counted = (f"{self.count(verdict):,} {_plural(verdict, self.count(verdict))}" for verdict in Verdict)
        return f"{', '.join(counted)}: {_SAID[self.verdict]}"


_SAID = {
    Verdict.OK: "all is well",
    Verdict.WARNING: "it works, but somebody should look",
    Verdict.PROBLEM: "something is wrong",
}
_NOUNS = {Verdict.WARNING: ("warning", "warnings"), Verdict.PROBLEM: ("problem", "problems")}


def _plural(verdict: Verdict, count: int) -> str:
    return _NOUNS[verdict][count != 1] if verdict in _NOUNS else str(verdict)


def _check(result: Result) -> dict[str, Any]:
    finding = result.finding
    return {
        "id": result.id,
        "area": result.area,
        "subject": result.subject,
        "verdict": str(finding.verdict),
        "found": finding.found,
        "expected": finding.expected or None,
        "advice": finding.advice or None,
    }


def _lines(result: Result) -> Iterator[str]:
    finding = result.finding
    yield f"  {finding.verdict:<8} {result.id:<24} {result.subject}: {finding.found}"
    if finding.expected:
        yield f"           expected: {finding.expected}"
    if finding.advice:
        yield f"           do: {finding.advice}"
