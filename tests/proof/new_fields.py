"""Fields that records have beyond the schema of their source, for campaigns whose sources say `new_fields: add`."""

import json
import random
from collections.abc import Iterable, Mapping
from typing import Any

from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_history import table_history
from tests.proof.places import COLUMNS, LoggedCommits, Place

ADD: Mapping[str, Any] = {"new_fields": "add", "max_new_columns": 1_000}
"""Settings of a source."""
ADDED = "columns that files have brought"
"""A count."""
NAMES, RECORDS_EACH = 200, 20
"""So many names, of which each comes with so many records first."""
SHARE = 0.2


def record(number: int, rng: random.Random, **values: Any) -> dict[str, Any]:
    """Sometimes with a further field, whose name others have, too."""
    if rng.random() < SHARE:
        values[f"f{number // RECORDS_EACH % NAMES}"] = number
    return values


def names_in(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """The fields that the schema does not have."""
    return sorted({name for values in records for name in values} - {*COLUMNS})


def wrong_schema(place: Place, log: LoggedCommits, sources: Iterable[str], names: Iterable[str]) -> str | None:
    """Each field has to be a column, and the history has to say who brought it. Returns a complaint, or None.
    `sources`: ids of all that write to the table."""
    known = [name for _, actions in log for name in columns_of(actions)]
    identities = [SourceIdentity(*one.split(":"), f"_blizzard/{one.replace(':', '_')}") for one in sources]
    brought = [
        field.path
        for entry in table_history(place.table(), identities)
        for field in entry.fields or ()
        if field.file is not None
    ]
    if lacking := sorted({*names} - {*known}):
        return f"fields that never became columns: {lacking[:5]}"
    if untold := sorted({*names} - {*brought}):
        return f"columns of which the history does not say who brought them: {untold[:5]}"
    return None


def columns_of(actions: Iterable[Mapping[str, Any]]) -> list[str]:
    """Names in the schemas that a commit brings."""
    return [
        field["name"]
        for action in actions
        if "metaData" in action
        for field in json.loads(action["metaData"]["schemaString"])["fields"]
    ]
