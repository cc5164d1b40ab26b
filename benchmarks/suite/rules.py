"""`rules`: derived columns, constraints, and permission for files to change the schema, relative to the same job
without them. The records satisfy the constraints and fit the schema: this is what each costs while nothing is wrong.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from deltalake import DeltaTable

from benchmarks.contenders import Work
from benchmarks.data import dataset
from benchmarks.goals import goals_of
from benchmarks.result import Result, Table
from benchmarks.rounds import ContenderRuns, interleaved, loads_note
from benchmarks.run_options import RunOptions
from benchmarks.stats import TIMES, Spread, evaluate_goals, ratio
from benchmarks.suite import comparison
from benchmarks.verify import WrongResult

PLAIN, ALL = "none of them", "all of them"
DERIVED = {
    "day": "date(timestamp_seconds(timestamp))",
    "hour": "hour(timestamp_seconds(timestamp))",
    "key": "lower(id)",
    "start": "substring(id, 1, 4)",
    "label": "concat(id, '-', payload)",
    "whole": "cast(value AS BIGINT)",
    "filled": "coalesce(payload, 'none')",
    "origin": "'landing'",
}
DAY_AND_HOUR = {name: DERIVED[name] for name in ("day", "hour")}
ALONE = {f"{name} alone": {name: DERIVED[name]} for name in DERIVED if name not in DAY_AND_HOUR}
CONSTRAINTS = {"positive": "n >= 0", "known": "value IS NOT NULL OR payload IS NOT NULL", "named": "length(id) > 0"}
CHANGING = {"new_fields": "add", "misfits": "widen", "keys": "ignore_case"}
WAYS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    PLAIN: ({}, {}),
    "time": ({"derive": DAY_AND_HOUR}, {}),
    **{name: ({"derive": derived}, {}) for name, derived in ALONE.items()},
    "derive": ({"derive": DERIVED}, {}),
    "constraints": ({}, {"constraints": CONSTRAINTS}),
    "changes": (CHANGING, {}),
    ALL: ({"derive": DERIVED, **CHANGING}, {"constraints": CONSTRAINTS}),
}
"""By measurement: further fields of the source, and of the pipeline."""
TITLES = {
    PLAIN: "neither",
    "time": "`derive`, date and hour of a time",
    **{name: f"`derive`, `{expression}`" for name, derived in ALONE.items() for expression in derived.values()},
    "derive": f"`derive`, {len(DERIVED)} columns, five of them texts",
    "constraints": f"`constraints`, {len(CONSTRAINTS)} of them",
    "changes": ", ".join(f"`{name}: {value}`" for name, value in CHANGING.items()),
    ALL: ALL,
}


def run(options: RunOptions) -> Result:
    data = dataset("big", options.scale, options.report_progress, cache=options.cache)
    series = interleaved(works_of(options), options, inspect_table=expect_columns)
    return Result(
        "rules",
        f"{data.rows:,} records in {data.files} gzip files, by the local engine",
        (Table(("with", "s, cold", "s, warm", f"{TIMES.strip()} without, warm", "peak MiB"), tuple(_rows(series))),),
        tuple(evaluate_goals(goals_of("rules"), measured(series), {})),
        notes=(loads_note({TITLES[name]: one for name, one in series.items()}),),
        raw=comparison.raw(data, series),
    )


def works_of(options: RunOptions) -> dict[str, Work]:
    data = dataset("big", options.scale, options.report_progress, cache=options.cache)
    return {
        name: Work(
            "blizzard_local",
            data,
            "",
            3,
            options.cores,
            settings={**comparison.BULK, **of_source},
            options={"pipeline": dict(of_pipeline)},
        )
        for name, (of_source, of_pipeline) in WAYS.items()
    }


def expect_columns(work: Work, number: int) -> None:
    """Raises WrongResult if the table lacks a derived column or a constraint."""
    table = DeltaTable(work.table(number))
    columns, constraints = {field.name for field in table.schema().fields}, {*table.metadata().configuration}
    wanted = {*work.settings.get("derive", ())} - columns
    wanted |= {f"delta.constraints.{name}" for name in work.options["pipeline"].get("constraints", ())} - constraints
    if wanted:
        raise WrongResult(f"the table has neither column nor constraint {', '.join(sorted(wanted))}")


def measured(series: Mapping[str, ContenderRuns]) -> dict[str, Spread]:
    """Measurements by goal: time relative to the job without."""
    found = {name: ratio(one.warm(), series[PLAIN].warm()) for name, one in series.items() if name != PLAIN}
    return {**found, "alone": max((found[name] for name in ALONE), key=lambda spread: spread.median)}


def _rows(series: Mapping[str, ContenderRuns]) -> Iterator[tuple[str, ...]]:
    for name, one in series.items():
        relative = "" if name == PLAIN else str(ratio(one.warm(), series[PLAIN].warm()))
        yield TITLES[name], str(Spread.of(one.cold())), str(Spread.of(one.warm())), relative, str(one.peak_mib())
