"""A table whose columns its records change, and what its rows have to be: by rules of this world, record by record,
whatever the product infers."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import Row, SparkSession

import spark_job.table.proposals
import spark_job.wiring
from spark_job.ports.table import SchemaProposal
from spark_job.tasks.read_settings import ReadSettings
from tests.proof.campaign import Failed, Fault, Run
from tests.spark.engine_lake import EngineLake

SCHEMA = "id STRING NOT NULL, n INT, t INT, d STRUCT<a: INT>"
CHANGING = ("add", "widen")
MODES = (CHANGING, ("rescue", "rescue"), ("add", "rescue"), ("rescue", "widen"))
"""`new_fields` and `misfits` of a source: the first two have the first two rounds."""
WAVES, FILES, RECORDS = 2, 3, 8
NAMES = 3
"""Of fields, in each wave others."""
BIG = 2**31
NEW, NESTED, WIDE, TEXT, PLAIN = "a new field", "a new field in a column", "a wide number", "a text", "no change"
KINDS = (NEW, NESTED, WIDE, TEXT, PLAIN)
CHANGED = {kind: f"records with {kind} that changed their table" for kind in (NEW, NESTED, WIDE)}
RESCUED = {kind: f"records with {kind} that was rescued" for kind in (NEW, NESTED, WIDE, TEXT)}
COUNTS = (*CHANGED.values(), *RESCUED.values())

NO_NESTED = "a new field in a column is rescued where it should be added"
NO_WIDENING = "a column is not widened"
NOTHING_RESCUED = "what no column takes is not kept"
_WRONG = "not as the rules of the world say"
VARIANTS: Mapping[str, Fault] = {
    NO_NESTED: Fault("the field is not in its row", f"^{_WRONG}: {NESTED}"),
    NO_WIDENING: Fault("the number is not in its row", f"^{_WRONG}: {WIDE}"),
    NOTHING_RESCUED: Fault("the value is neither in its row nor in `_rescued`", f"^{_WRONG}: "),
}


@dataclass(frozen=True, slots=True)
class Record:
    """`values`: as it is written. The other two: as it has to be stored, without nulls."""

    kind: str
    values: Mapping[str, Any]
    columns: Mapping[str, Any]
    rescued: Mapping[str, Any]


def record(kind: str, number: int, name: str, new_fields: str, misfits: str) -> Record:
    """`name`: of a new field."""
    own, text = {"id": f"{number}"}, f"v{number}"
    adds, widens = new_fields == "add", misfits == "widen"
    match kind:
        case "a new field":
            return _record(kind, own, {}, {f"z{name}": text}, f"z{name}", stored=adds)
        case "a new field in a column":
            inner = {"a": number, f"b{name}": text}
            stored = {**own, "d": inner if adds else {"a": number}}
            return Record(kind, {**own, "d": inner}, stored, {} if adds else {f"d.b{name}": text})
        case "a wide number":
            return _record(kind, own, {}, {"n": BIG + number}, "n", stored=widens)
        case "a text":
            return _record(kind, own, {"n": number}, {"t": text}, "t", stored=False)
        case _:
            return _record(kind, own, {"t": number}, {"n": number}, "n", stored=True)


def _record(
    kind: str, own: Mapping[str, Any], more: Mapping[str, Any], odd: Mapping[str, Any], name: str, *, stored: bool
) -> Record:
    columns = {**own, **more, **(odd if stored else {})}
    return Record(kind, {**own, **more, **odd}, columns, {} if stored else {name: odd[name]})


def check(run: Run, folder: Path, spark: Callable[[], SparkSession], number: int, rng: random.Random) -> None:
    """Raises Failed if a row is not as its record says, by the engine whose turn it is."""
    new_fields, misfits = MODES[number] if number < 2 else rng.choice(MODES)
    limit = {"max_new_columns": 1_000} if new_fields == "add" else {}
    settings = {"schema": SCHEMA, "new_fields": new_fields, "misfits": misfits, **limit}
    folder.mkdir()
    lake = EngineLake(folder, spark, settings, chosen=("auto", "spark")[number % 2])
    expected: dict[str, Record] = {}
    with closing(lake):
        for wave in range(WAVES):
            for file in range(FILES):
                records = [*_records(rng, len(expected), wave, new_fields, misfits)]
                expected |= {one.values["id"]: one for one in records}
                lake.put(f"{wave}-{file}.ndjson", *(one.values for one in records))
            run.say(f"round {number}: columns that records change, {new_fields} and {misfits}, with {lake.chosen}")
            lake.run()
        letters = lake.letters()
    found = spark().read.format("delta").load(str(lake.table)).collect()
    step = f"seed {run.seed}, round {number}: {settings}, with {lake.chosen}"
    if letters:
        raise Failed(f"{_WRONG}: {expected[_id_of(letters[0])].kind} is a dead letter: {letters[0]}", [step])
    if wrong := complaint(expected, found):
        raise Failed(wrong, [step])
    changed = new_fields == "add", new_fields == "add", misfits == "widen", False, False
    for kind, is_change in zip(KINDS, changed, strict=True):
        names = CHANGED if is_change else RESCUED
        if kind in names:
            run.counts[names[kind]] += sum(one.kind == kind for one in expected.values())


def _records(rng: random.Random, first: int, wave: int, new_fields: str, misfits: str) -> Iterator[Record]:
    """Each kind once, and others, in any order."""
    kinds = [*KINDS, *rng.choices(KINDS, k=RECORDS - len(KINDS))]
    rng.shuffle(kinds)
    for number, kind in enumerate(kinds, first):
        yield record(kind, number, f"{wave}{rng.randrange(NAMES)}", new_fields, misfits)


def _id_of(letter: Mapping[str, Any]) -> str:
    found: str = json.loads(letter["record"])["id"]
    return found


def complaint(expected: Mapping[str, Record], rows: Sequence[Row]) -> str | None:
    """Each record has to be one row, with its values in the columns where they belong, and nothing else."""
    times = Counter(row["id"] for row in rows)
    for key, one in expected.items():
        if times[key] != 1:
            return f"{_WRONG}: {one.kind}: record {one.values} is in {times[key]} rows"
    if others := {*times} - {*expected}:
        return f"{_WRONG}: rows that no record has: {sorted(others)[:5]}"
    for row in rows:
        values = _without_nulls(row.asDict(recursive=True))
        del values["_source"]
        rescued = json.loads(values.pop("_rescued", "{}"))
        one = expected[row["id"]]
        if (values, rescued) != (one.columns, one.rescued):
            wanted = f"{one.columns} and in _rescued {one.rescued}"
            return f"{_WRONG}: {one.kind}: expected {wanted}, found {values} and {rescued}"
    return None


def _without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_nulls(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if value is not None
    }


# -- what is broken on purpose


def _without_wishes(left_out: Callable[[str], bool], which: str) -> Any:
    whole = spark_job.table.proposals.propose

    def propose(*given: Any, **named: Any) -> SchemaProposal:
        wishes = [wish for wish in named[which] if not left_out(wish.path)]
        return whole(*given, **{**named, which: wishes})

    return patch.object(spark_job.table.proposals, "propose", propose)


def _rescue_nothing() -> Any:
    whole = spark_job.wiring.read_settings

    def read_settings(source: Any) -> ReadSettings:
        found = whole(source)
        return replace(found, rules=replace(found.rules, new_fields="count"))

    return patch.object(spark_job.wiring, "read_settings", read_settings)


BREAKS: Mapping[str, Callable[[], Any]] = {
    NO_NESTED: lambda: _without_wishes(lambda path: "." in path, "unknown"),
    NO_WIDENING: lambda: _without_wishes(lambda path: True, "misfits"),
    NOTHING_RESCUED: _rescue_nothing,
}
