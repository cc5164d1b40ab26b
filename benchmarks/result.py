"""What a benchmark gives: tables for people, goals, and the raw numbers."""

from dataclasses import asdict, dataclass, field
from typing import Any, Self

from benchmarks.figures import Goal, Judged, Spread
from benchmarks.version import Version


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text below `columns`; the first column names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Result:
    """Of one benchmark. `bars`: what the picture shows, seconds by contender; `raw`: every number, for `--json`;
    `version`: of this project as it was when the benchmark began, None where nobody knows; `cores`: on how many it ran,
    0 for all that the machine has."""

    name: str
    what: str
    tables: tuple[Table, ...]
    judged: tuple[Judged, ...] = ()
    notes: tuple[str, ...] = ()
    bars: dict[str, float] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)
    scale: float = 1.0
    rounds: int = 0
    took_secs: float = 0.0
    version: Version | None = None
    cores: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "what": self.what,
            "version": asdict(self.version) if self.version else None,
            "scale": self.scale,
            "rounds": self.rounds,
            "cores": self.cores,
            "took_secs": round(self.took_secs, 1),
            "tables": [{"columns": table.columns, "rows": table.rows} for table in self.tables],
            "goals": [judged.to_json() for judged in self.judged],
            "notes": self.notes,
            "bars": self.bars,
            "raw": self.raw,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Also of files from before results had a version, cores, or the rounds of a goal."""
        tables = tuple(Table(tuple(t["columns"]), tuple(map(tuple, t["rows"]))) for t in document["tables"])
        judged = tuple(_judged(document["name"], goal) for goal in document["goals"])
        known = document.get("version")
        version = Version(**known) if known else None
        plain = {name: document[name] for name in ("name", "what", "bars", "raw", "scale", "rounds", "took_secs")}
        cores = document.get("cores", 0)
        return cls(tables=tables, judged=judged, notes=tuple(document["notes"]), version=version, cores=cores, **plain)


def _judged(benchmark: str, goal: dict[str, Any]) -> Judged:
    measured = Spread.from_json(goal["measured"]) if goal["measured"] else None
    facts = (goal["name"], goal["text"], goal["kind"], goal["limit"], goal["unit"])
    rounds = goal.get("rounds", measured.count if measured else 0)
    return Judged(Goal(benchmark, *facts), measured, goal["why_not"], rounds)
