"""Reports of results: plain text for a terminal, Markdown for the documents."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.core_scaling import growth, on_most_cores
from benchmarks.cost import core, cost
from benchmarks.result import Result, Table
from benchmarks.stats import Goal, GoalResult, number
from benchmarks.version import Version

GOAL_COLUMNS = ("goal", "limit", "measured", "")


def as_text(machine: Mapping[str, Any], results: Sequence[Result]) -> str:
    return "\n".join(_text(machine, results)) + "\n"


def _text(machine: Mapping[str, Any], results: Sequence[Result]) -> Iterator[str]:
    yield about(machine) + _only_version(results)
    yield from _versions(results)
    yield from _other_machines(results)
    for result in on_most_cores(results):
        yield ""
        yield f"{result.name}: {_what(machine, result)}"
        for table in [*result.tables, *_goals(result)]:
            yield ""
            yield from _columns(table)
        yield from (f"  {note}" for note in result.notes)
    for name, table in growth(machine, results).items():
        yield ""
        yield _grown(name)
        yield ""
        yield from _columns(table)


def _columns(table: Table) -> Iterator[str]:
    rows = [table.columns, *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.columns))]
    for row in rows:
        first, *others = (
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        yield "  " + "  ".join([first, *others]).rstrip()


def as_markdown(machine: Mapping[str, Any], results: Sequence[Result]) -> str:
    """The generated block of docs/performance.md."""
    return "\n".join(_markdown(machine, results)) + "\n"


def _markdown(machine: Mapping[str, Any], results: Sequence[Result]) -> Iterator[str]:
    yield about(machine) + _only_version(results)
    yield ""
    for line in (*_versions(results), *_other_machines(results)):
        yield line
        yield ""
    shown = on_most_cores(results)
    yield from pipes(Table(("benchmark", *GOAL_COLUMNS), tuple(_all_goals(shown))))
    for result in shown:
        yield ""
        yield f"### {result.name}"
        yield ""
        yield _what(machine, result)
        for table in result.tables:
            yield ""
            yield from pipes(table)
        if result.notes:
            yield ""
            yield from (f"- {note}" for note in result.notes)
    of_machine = [result for result in shown if result.machine is None]
    for heading, table in (
        ("What a core does in a second", core(machine, of_machine)),
        ("What a million files would cost", cost(machine, of_machine)),
        *((_grown(name), table) for name, table in growth(machine, results).items()),
    ):
        if table is not None:
            yield ""
            yield f"### {heading}"
            yield ""
            yield from pipes(table)


def _grown(name: str) -> str:
    return f"How {name} grows with cores"


def pipes(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(table.columns)} |"
    yield f"|{'|'.join(['---', *['--:'] * (len(table.columns) - 1)])}|"
    for row in table.rows:
        yield f"| {' | '.join(row)} |"


def _all_goals(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    return (
        (result.name, *_goal(goal_result, result.scale)) for result in results for goal_result in result.goal_results
    )


def _goals(result: Result) -> list[Table]:
    return (
        [Table(GOAL_COLUMNS, tuple(_goal(one, result.scale) for one in result.goal_results))]
        if result.goal_results
        else []
    )


def _goal(goal_result: GoalResult, scale: float) -> tuple[str, ...]:
    goal = goal_result.goal
    if goal_result.measured is None:
        return goal.text, limit_of(goal), "", f"{goal_result.verdict}: {goal_result.why_not}"
    return goal.text, limit_of(goal), f"{goal_result.measured}{goal.unit}", verdict_of(goal_result, scale)


def limit_of(goal: Goal) -> str:
    return ("≥ " if goal.kind == "at least" else "≤ ") + number(goal.limit) + goal.unit


def verdict_of(goal_result: GoalResult, scale: float = 1.0) -> str:
    """With reservations: rounds that disagree, a reduced scale, a single round."""
    verdict = goal_result.verdict + (" by the median" if goal_result.divided else "")
    verdict += "" if scale == 1 else f" at {scale:g} of the size"
    return verdict + (", one round" if goal_result.rounds == 1 else "")


def _what(machine: Mapping[str, Any], result: Result) -> str:
    scaled = "" if result.scale == 1 else f" (scale {result.scale:g}: too small to compare times)"
    cores = (result.machine or machine)["cores"]
    fewer = result.cores and result.cores != cores
    return result.what + (f", on {result.cores} of the {cores} cores" if fewer else "") + scaled


def about(machine: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']:g} GiB, {machine['kernel']}; "
        f"Python {machine['python']}, {versions}"
    )


def _other_machines(results: Sequence[Result]) -> Iterator[str]:
    """A line for each further machine, with its benchmarks."""
    found: dict[str, list[str]] = {}
    for result in results:
        if result.machine is not None:
            found.setdefault(about(result.machine), []).append(result.name)
    for machine, names in found.items():
        yield f"Measured on another machine: {', '.join(dict.fromkeys(names))}, on {machine}."


def _measured_of(results: Sequence[Result]) -> dict[Version | None, list[str]]:
    """Names of the benchmarks by version."""
    found: dict[Version | None, list[str]] = {}
    reported = on_most_cores(results)
    for result in results:
        fewer = "" if any(result is one for one in reported) else f" on {result.cores} of the cores"
        found.setdefault(result.version, []).append(result.name + fewer)
    return found


def _only_version(results: Sequence[Result]) -> str:
    """Blizzard's version, if it is known and the same for all results."""
    found = [*_measured_of(results)]
    return f"; Blizzard at {found[0]}" if len(found) == 1 and found[0] is not None else ""


def _versions(results: Sequence[Result]) -> Iterator[str]:
    """A line that lists the benchmarks of each version, if versions differ."""
    found = _measured_of(results)
    if len(found) > 1:
        told = "; ".join(f"{version or 'not known'}: {', '.join(names)}" for version, names in found.items())
        yield f"Results from several runs of these versions of Blizzard: {told}."
