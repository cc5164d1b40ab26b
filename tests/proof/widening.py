"""A column whose numbers get longer, for tables whose sources say `misfits: widen`: the type that it has to have, each
step to it, and who has to have brought it.

Its first type holds three digits. Each longer number widens it, up to the 38 digits of a decimal; a text never fits.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_history import HistoryField, table_history
from tests.proof.places import SCHEMA, LoggedCommits, Place, prefix_of

COLUMN, TEXT = "w", "no number"
FIRST_DIGITS, MOST_DIGITS = 3, 38
SETTINGS: Mapping[str, Any] = {"misfits": "widen", "schema": f"{SCHEMA}, {COLUMN} DECIMAL({FIRST_DIGITS},0)"}
"""Of a source."""
TEXTS, NUMBERS = 0.05, 0.6
"""Shares of the records."""
KEPT_BESIDE = "numbers that a wider column holds are kept beside it"
NARROWED = "a column was narrowed"
RESCUED = "texts kept beside a column that is widened"
"""A count."""

Records = Mapping[str, Mapping[tuple[str, int], Mapping[str, Any]]]
"""By source id, and by path and number of the record, its values."""


def widened_on(place: str) -> str:
    """Name of the count."""
    return f"times that a column was widened on {place}"


def record(digits: int, rng: Random, **values: Any) -> dict[str, Any]:
    """Often with a number of so many digits or fewer, now and then with a text."""
    kind, most = rng.random(), min(digits, MOST_DIGITS)
    if kind < TEXTS:
        values[COLUMN] = TEXT
    elif kind < TEXTS + NUMBERS:
        size = rng.choice((most, rng.randint(1, most)))
        values[COLUMN] = rng.choice((1, -1)) * rng.randrange(10 ** (size - 1), 10**size)
    return values


def digits_of(values: Mapping[str, Any]) -> int:
    """Of the number in a record; 0: it has none."""
    found = values.get(COLUMN)
    return len(str(abs(found))) if isinstance(found, int) else 0


def most_digits(records: Iterable[Mapping[str, Any]]) -> int:
    """That a column with all of their numbers has to have."""
    return max(map(digits_of, records), default=0)


def texts_in(records: Iterable[Mapping[str, Any]]) -> int:
    """How many of them have a text."""
    return sum(values.get(COLUMN) == TEXT for values in records)


def value_in(row: Mapping[str, Any]) -> int | str | None:
    """Of a record, or of a row: in its column or kept beside it."""
    found = row.get(COLUMN)
    if found is None:
        found = json.loads(row.get("_rescued") or "{}").get(COLUMN)
    return int(found) if isinstance(found, Decimal) else found


def kept_beside(rows: Iterable[Mapping[str, Any]]) -> str | None:
    """A complaint about rows whose number is in `_rescued`; None: there are none."""
    rescued = [json.loads(row.get("_rescued") or "{}").get(COLUMN) for row in rows]
    wrong = [value for value in rescued if isinstance(value, int)]
    return f"{KEPT_BESIDE}: {len(wrong)}, such as {wrong[:3]}" if wrong else None


# -- the log


class Step(NamedTuple):
    """A commit with another type of the column. `source`: id; None: of somebody else. `was` None: it is new."""

    version: int
    source: str | None
    operation: str
    was: int | None
    digits: int

    @property
    def is_widening(self) -> bool:
        """By a job, of a column that is there."""
        return self.source is not None and self.was is not None and self.was < self.digits


def steps(log: LoggedCommits) -> Iterator[Step]:
    before: int | None = None
    for version, actions in log:
        field = _field_in(actions)
        digits = before if field is None else int(field["type"].removeprefix("decimal(").removesuffix(",0)"))
        if digits is not None and digits != before:
            yield Step(version, _source_of(actions), _operation_of(actions), before, digits)
        before = digits


def _field_in(actions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The column, if this commit says how the table is."""
    schemas = (json.loads(action["metaData"]["schemaString"]) for action in actions if "metaData" in action)
    return next((field for schema in schemas for field in schema["fields"] if field["name"] == COLUMN), None)


def _source_of(actions: Iterable[Mapping[str, Any]]) -> str | None:
    ids = (action["txn"]["appId"] for action in actions if "txn" in action)
    return next((one.removeprefix("blizzard:") for one in ids if one.startswith("blizzard:")), None)


def _operation_of(actions: Iterable[Mapping[str, Any]]) -> str:
    return next((str(action["commitInfo"]["operation"]) for action in actions if "commitInfo" in action), "?")


# -- what is wrong


def complaints(
    place: Place, log: LoggedCommits, records: Records, *, landed_digits: int = 0, overwritten: Collection[str] = ()
) -> Iterator[str]:
    """`records`: all that the sources have now. `landed_digits`: of the longest number that they ever had;
    `overwritten`: paths that had other records before. RESTORE, of somebody else, may bring any older type back."""
    log = [*log]
    found = [*steps(log)]
    for step in found:
        if step.source is None and step.operation != "RESTORE":
            yield f"version {step.version}: {step.operation} of somebody else changed {_shown(step)}"
        elif step.source is not None and step.was is not None and not step.is_widening:
            yield f"{NARROWED}: version {step.version} changed {_shown(step)}"
    needed = max(FIRST_DIGITS, most_digits(values for some in records.values() for values in some.values()))
    reached = max((step.digits for step in found), default=0)
    if not needed <= reached <= max(needed, landed_digits):
        yield f"column {COLUMN}: expected a type of {needed} digits, the widest that records need, found {reached}"
    yield from _of_notes(log)
    yield from _of_history(place, found, records, overwritten)


def _shown(step: Step) -> str:
    return f"column {COLUMN} from {step.was} to {step.digits} digits"


def _of_notes(log: LoggedCommits) -> Iterator[str]:
    """In the log each change of the type follows from the one before."""
    fields = [field for _, actions in log if (field := _field_in(actions)) is not None]
    notes = fields[-1]["metadata"].get("delta.typeChanges", ()) if fields else ()
    ends = [note["toType"] for note in notes]
    if ends and [note["fromType"] for note in notes[1:]] + [fields[-1]["type"]] != ends:
        yield f"column {COLUMN} is {fields[-1]['type']}, and its changes do not lead there one after the other: {notes}"


def _of_history(place: Place, found: Iterable[Step], records: Records, overwritten: Collection[str]) -> Iterator[str]:
    """Each step has the record that brought it, which needed it."""
    identities = [SourceIdentity(*one.split(":"), prefix_of(one)) for one in records]
    told: dict[int | None, list[tuple[str | None, HistoryField]]] = {}
    for entry in table_history(place.table(), identities):
        fields = [(entry.source, field) for field in entry.fields or () if field.path == COLUMN]
        told.setdefault(entry.version, []).extend(fields)
    for step in found:
        before = FIRST_DIGITS if step.was is None else step.was
        if step.source is None or step.digits <= before:
            continue
        was = None if step.was is None else f"decimal({step.was},0)"
        expected = step.source, f"decimal({step.digits},0)", was
        of_version = told.get(step.version, [])
        if [(source, field.type, field.was) for source, field in of_version] != [expected]:
            yield f"version {step.version}: expected {expected} in the history, found {of_version}"
            continue
        path, number = of_version[0][1].file, of_version[0][1].record
        values = records[step.source].get((path or "", -1 if number is None else number), {})
        if path not in overwritten and digits_of(values) <= before:
            yield f"version {step.version}: the history says that record {number} of {path} brought it: {values}"
