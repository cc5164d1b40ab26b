"""CHECK constraints of a table, compared with those that a configuration wants."""

import json
from collections.abc import Iterator, Mapping

from spark_job.table.file_layout import INVARIANTS, TableDescription

CONSTRAINT_PROPERTY = "delta.constraints."


def constraints_of(table: TableDescription) -> dict[str, str]:
    """Expressions by name, which Delta keeps in lower case."""
    return {
        name[len(CONSTRAINT_PROPERTY) :]: sql
        for name, sql in table.properties.items()
        if name.lower().startswith(CONSTRAINT_PROPERTY)
    }


def conditions_of(table: TableDescription) -> dict[str, str]:
    """Its constraints, and the invariants of its columns."""
    found = constraints_of(table)
    for field in table.schema:
        if INVARIANTS in field.metadata:
            found[f"of column {field.name}"] = json.loads(field.metadata[INVARIANTS])["expression"]["expression"]
    return found


def missing_constraints(table: TableDescription, wanted: Mapping[str, str]) -> dict[str, str]:
    found = constraints_of(table)
    return {name: sql for name, sql in wanted.items() if name.lower() not in found}


def constraint_conflicts(table: TableDescription, wanted: Mapping[str, str]) -> Iterator[str]:
    """Constraints of the same name with another condition."""
    found = constraints_of(table)
    for name, sql in wanted.items():
        own = found.get(name.lower(), sql)
        if _letters(own) != _letters(sql):
            yield (
                f"constraint {name}: expected {sql}, found {own} (to change it: ALTER TABLE … DROP CONSTRAINT {name}, "
                "and the next run adds the other one)"
            )


def _letters(sql: str) -> str:
    """Spark stores an expression with other blanks than it was written with."""
    return "".join(sql.split())
