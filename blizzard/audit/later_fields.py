"""Fields that a table has got after a row was written: whoever reads its file again finds a place for values that had
none then."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from blizzard.audit.commits_of import CommitFinder
from blizzard.audit.snapshot import read_snapshot
from blizzard.audit.source import AuditedSource
from blizzard.audit.stored_rows import Key, StoredRow
from blizzard.config.field_places import in_place
from blizzard.config.schema_rules import RESCUED
from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_history import table_history

_ONE_OF_MANY = re.compile(r"\[\d+\]|\{(?:`(?:[^`]|``)*`|[^}`]*)\}")

Pairs = Mapping[Key, tuple[StoredRow, StoredRow]]
"""Rows as they were read again, and as the table has them."""


def as_written(source: AuditedSource, sources: Sequence[SourceIdentity], pairs: Pairs) -> Pairs:
    """Without what the table had no place for when the rows were written. `sources`: all of the table. Rows of which
    nobody knows the version of the table stay as they are."""
    if not pairs:
        return pairs
    finder = CommitFinder(source, read_snapshot(source, tail_commits=1).checkpoint)
    commits = finder.find({(key[0], stored.sequence) for key, (_, stored) in pairs.items()})
    since = _versions(source, sources)
    found = dict(pairs)
    for key, (again, stored) in pairs.items():
        commit = commits.get((key[0], stored.sequence))
        if commit is not None and commit.table_version is not None:
            later = {place for place, version in since.items() if version > commit.table_version}
            found[key] = without_later(again, stored, later)
    return found


def _versions(source: AuditedSource, sources: Sequence[SourceIdentity]) -> dict[str, int]:
    """By place the version that has first had the field, as far as that is known."""
    since: dict[str, int] = {}
    for entry in table_history(source.state, sources):
        for field in entry.fields or ():
            is_new = field.was is None or field.renamed_from is not None
            if entry.version is not None and is_new and field.type is not None:
                since.setdefault(field.path, entry.version)
    return since


def without_later(again: StoredRow, stored: StoredRow, later: Collection[str]) -> tuple[StoredRow, StoredRow]:
    """Both rows without values of these places: what a file has there may be in `_rescued` of the table."""
    values = {name: _without(value, in_place(name), later) for name, value in again.values.items()}
    kept = dict(stored.values)
    rescued, now = _document(kept.get(RESCUED)), _document(values.get(RESCUED))
    if rescued and now is not None:
        is_left = {place: place in now or _ONE_OF_MANY.sub(_any, place) not in later for place in rescued}
        values[RESCUED] = now or None
        kept[RESCUED] = {place: value for place, value in rescued.items() if is_left[place]} or None
    return StoredRow(values, again.sequence), StoredRow(kept, stored.sequence)


def _without(value: Any, place: str, later: Collection[str]) -> Any:
    if place in later:
        return None
    if isinstance(value, dict):
        return {name: _without(each, f"{place}.{in_place(name)}", later) for name, each in value.items()}
    if isinstance(value, list):
        return [
            (each[0], _without(each[1], f"{place}{{}}", later))
            if isinstance(each, tuple)
            else _without(each, f"{place}[]", later)
            for each in value
        ]
    return value


def _document(text: Any) -> dict[str, Any] | None:
    """What `_rescued` has, by place. None: it is of somebody else."""
    try:
        found = json.loads(text or "{}")
    except (TypeError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _any(found: re.Match[str]) -> str:
    return "[]" if found[0].startswith("[") else "{}"
