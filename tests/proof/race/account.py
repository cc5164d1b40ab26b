"""What each commit of a table has added and removed, from the log and the data files alone: who brought which row.

Somebody else may have deleted, restored or appended, so the newest rows need not be the source's records. What must
hold all the same: each record was brought in once by the product, never twice, whatever became of it afterwards; the
product removed nothing; and what is in the table now is what these commits, one after the other, leave.

What others have removed stays removed, even if its file is announced again.
"""

import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from tests.proof import new_fields, places, widening
from tests.proof.kill.commit_claims import CommitClaim, missing_from_log
from tests.proof.kill.letters import etags_of, wrong_letters
from tests.proof.places import COLUMNS, Place
from tests.proof.race.names import MISSING

Row = tuple[str | None, str | None, int | None, str | None, int | None, tuple[tuple[str, int | str], ...]]
"""Source, file, number of the record, id, n, and by name the fields that files have brought and the number or text of a
column that is widened; the first three are None for somebody else's row."""
NEW = re.compile("f[0-9]+")
REWRITES = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "ADD COLUMNS", "SET TBLPROPERTIES", "CREATE TABLE"})
"""Operations that may not change what is in the table."""
APPENDS, REMOVES = frozenset({"WRITE"}), frozenset({"DELETE"})


@dataclass(slots=True)
class Account:
    """`entered`: what the product's commits brought; `others`: what everybody else's changed, by sign."""

    entered: Counter[Row] = field(default_factory=Counter)
    now: Counter[Row] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    removed: Counter[Row] = field(default_factory=Counter)
    """By somebody else, and not brought back by them."""
    commits: int = 0
    brought: int = 0
    """Columns that files have brought."""
    widened: int = 0
    """How often jobs have widened a column."""
    texts: int = 0
    """That do not fit it."""
    schemas: list[frozenset[str]] = field(default_factory=list)
    """Columns of the table, oldest first."""
    forgotten: int = 0
    """Rows whose values in new columns a DELETE has lost."""
    log: list[tuple[int, list[dict[str, Any]]]] = field(default_factory=list)
    """As it was read."""


def account(place: Place) -> Account:
    """Reads the whole log. `faults` say what no operation of that name may do."""
    found, files = Account(log=[*places.log_of(place.table())]), _Files(place)
    for version, actions in found.log:
        if names := new_fields.columns_of(actions):
            found.schemas.append(frozenset(names))
        adds = [action["add"]["path"] for action in actions if "add" in action]
        removes = [action["remove"]["path"] for action in actions if "remove" in action]
        added, removed = files.rows(adds), files.rows(removes)
        both = added & removed
        added, removed = added - both, removed - both
        if any(action["txn"]["appId"].startswith("blizzard:") for action in actions if "txn" in action):
            found.commits += 1
            _of_ours(found, version, added, removed)
        else:
            operation = next((a["commitInfo"]["operation"] for a in actions if "commitInfo" in a), "?")
            found.operations[operation] += 1
            _of_others(found, version, operation, added, removed)
        found.now += added
        found.now -= removed
    found.faults += files.faults
    return found


def _of_ours(found: Account, version: int, added: Counter[Row], removed: Counter[Row]) -> None:
    found.entered += added
    if removed:
        found.faults.append(f"version {version} of ours removed {removed.total()} rows: {[*removed][:3]}")
    if foreign := [row for row in added if row[0] is None]:
        found.faults.append(f"version {version} of ours brought rows of no source: {foreign[:3]}")


def _of_others(found: Account, version: int, operation: str, added: Counter[Row], removed: Counter[Row]) -> None:
    if operation in REWRITES and (added or removed):
        found.faults.append(
            f"version {version}, {operation}: expected no change, found +{[*added][:3]} -{[*removed][:3]}"
        )
    if operation in APPENDS and (removed or any(row[0] is not None for row in added)):
        found.faults.append(
            f"version {version}, {operation}: expected only rows of somebody else, found {[*added][:3]}"
        )
    forgotten = rows_before(added, removed, found.schemas) if operation in REMOVES else Counter[Row]()
    if forgotten is None:
        found.faults.append(f"version {version}, {operation}: expected no new row, found {[*added][:3]}")
    else:
        found.forgotten += forgotten.total()
        removed = removed - forgotten
    found.removed += removed
    found.removed -= added


def rows_before(added: Counter[Row], removed: Counter[Row], schemas: Sequence[Collection[str]]) -> Counter[Row] | None:
    """What the `added` rows of a DELETE were, if it has only lost their values in new columns; None: it did more.

    Delta analyses a statement before it begins its transaction. A column that is added in between is unknown to the
    statement, which writes the rows of its files again without the values in it. `schemas`: the table's, oldest first.
    """
    if not added:
        return Counter()
    for known in reversed(schemas[:-1]):
        new = {*schemas[-1]} - {*known}
        before = {(*row[:-1], tuple(value for value in row[-1] if value[0] not in new)): row for row in removed}
        if new and all(times == 1 and row in before for row, times in added.items()):
            return Counter(before[row] for row in added)
    return None


class _Files:
    """Rows by data file, each read once."""

    def __init__(self, place: Place) -> None:
        self._table = place.table()
        self._read: dict[str, Counter[Row]] = {}
        self.faults: list[str] = []

    def rows(self, paths: list[str]) -> Counter[Row]:
        total: Counter[Row] = Counter()
        for path in paths:
            total += self._of(unquote(path))
        return total

    def _of(self, path: str) -> Counter[Row]:
        if path not in self._read:
            table = pq.read_table(io.BytesIO(self._table.get(path)), partitioning=None)
            rows = table.to_pylist()
            self._read[path] = Counter(map(row_of, rows))
            if wrong := widening.kept_beside(rows):
                self.faults.append(f"{path}: {wrong}")
        return self._read[path]


def row_of(row: Mapping[str, Any]) -> Row:
    source = row.get("_source") or {}
    of_schema = (row.get(name) for name in COLUMNS)
    return (source.get("source"), source.get("file"), source.get("row"), *of_schema, _more(row))  # type: ignore[return-value]


def _more(values: Mapping[str, Any]) -> tuple[tuple[str, int | str], ...]:
    names = new_fields.names_in([values])
    found = [(name, values[name]) for name in names if NEW.fullmatch(name) and values[name] is not None]
    wide = widening.value_in(values)
    return (*found, *([] if wide is None else [(widening.COLUMN, wide)]))


def complaints(
    found: Account, place: Place, sources: Mapping[str, str], claims: Iterable[CommitClaim]
) -> Iterator[str]:
    """What is wrong, but for the newest version; nothing if all is well. `sources`: folder of each source by its id,
    `pipeline:source`; `claims`: what jobs believe to have committed."""
    if gone := missing_from_log(claims, found.log):
        yield gone
    yield from found.faults
    wanted: Counter[Row] = Counter()
    records: dict[str, Mapping[tuple[str, int], Mapping[str, Any]]] = {}
    for source_id, folder in sources.items():
        objects = places.source_of(place, folder)
        for (path, number), values in objects.records.items():
            wanted[source_id, path, number, *(values.get(name) for name in COLUMNS), _more(values)] += 1  # type: ignore[index]
        records[source_id] = objects.records
        letters = places.letters(place, source_id)
        yield from (f"{source_id}: {wrong}" for wrong in wrong_letters(letters, objects, etags_of(place, folder)))
    if missing := wanted - found.entered:
        yield f"{MISSING}: {missing.total()} records, {[*missing][:5]}"
    if doubled := found.entered - wanted:
        back = sum(row in found.removed for row in doubled)
        yield (
            f"entered more than once: {doubled.total()} records, {back} of them after others had removed them: "
            f"{[*doubled][:5]}"
        )
    if twice := [row for row, times in found.now.items() if times > 1 and row[0] is not None]:
        yield f"in the table more than once: {twice[:5]}"
    yield from _of_schema(found, place, records)
    for source_id in sources:
        if wrong := places.broken_sequence(found.log, source_id):
            yield wrong


def of_newest(found: Account, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """`rows`: of the table's newest version, as another engine reads it."""
    if found.now != (newest := Counter(map(row_of, rows))):
        yield (
            f"the newest version is not what its commits leave: missing {[*(found.now - newest)][:3]}, more "
            f"{[*(newest - found.now)][:3]}"
        )


def _of_schema(found: Account, place: Place, records: widening.Records) -> Iterator[str]:
    every = [values for some in records.values() for values in some.values()]
    names = [name for name in new_fields.names_in(every) if name != widening.COLUMN]
    found.brought, found.texts = len(names), widening.texts_in(every)
    if wrong := new_fields.wrong_schema(place, found.log, records, names):
        yield wrong
    steps = [*widening.steps(found.log)]
    if steps:  # otherwise the table has no such column
        found.widened = sum(step.is_widening for step in steps)
        yield from widening.complaints(place, found.log, records)
