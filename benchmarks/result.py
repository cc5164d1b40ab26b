"""The result of a benchmark: tables, goals, notes and raw numbers."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from benchmarks.stats import Goal, GoalResult, Spread
from benchmarks.version import Version


@dataclass(frozen=True, slots=True)
class Table:
    """Cells are formatted text; the first column names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Result:
    """`what`: the subject, shown below the name. `bars`: seconds by contender, for the chart. `raw`: all numbers, for
    `--json`. `version`: Blizzard's version when the benchmark began; None if unknown. `cores`: 0 means all cores.
    `machine`: None means that of the other results of the document."""

    name: str
    what: str
    tables: tuple[Table, ...]
    goal_results: tuple[GoalResult, ...] = ()
    notes: tuple[str, ...] = ()
    bars: dict[str, float] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)
    scale: float = 1.0
    rounds: int = 0
    took_secs: float = 0.0
    version: Version | None = None
    cores: int = 0
    machine: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "what": self.what,
            "version": asdict(self.version) if self.version else None,
            "scale": self.scale,
            "rounds": self.rounds,
            "cores": self.cores,
            **({} if self.machine is None else {"machine": self.machine}),
            "took_secs": round(self.took_secs, 1),
            "tables": [{"columns": table.columns, "rows": table.rows} for table in self.tables],
            "goals": [goal_result.to_json() for goal_result in self.goal_results],
            "notes": self.notes,
            "bars": self.bars,
            "raw": self.raw,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Accepts older files too, which lack `version`, `cores`, `machine`, or the `rounds` of a goal."""
        tables = tuple(Table(tuple(t["columns"]), tuple(map(tuple, t["rows"]))) for t in document["tables"])
        goal_results = tuple(_goal_result(document["name"], goal) for goal in document["goals"])
        known = document.get("version")
        version = Version(**known) if known else None
        plain = {name: document[name] for name in ("name", "what", "bars", "raw", "scale", "rounds", "took_secs")}
        cores = document.get("cores", 0)
        return cls(
            tables=tables,
            goal_results=goal_results,
            notes=tuple(document["notes"]),
            version=version,
            cores=cores,
            machine=document.get("machine"),
            **plain,
        )


def _goal_result(benchmark: str, goal: dict[str, Any]) -> GoalResult:
    measured = Spread.from_json(goal["measured"]) if goal["measured"] else None
    facts = (goal["name"], goal["text"], goal["kind"], goal["limit"], goal["unit"])
    rounds = goal.get("rounds", measured.count if measured else 0)
    return GoalResult(Goal(benchmark, *facts), measured, goal["why_not"], rounds)
