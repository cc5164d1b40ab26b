"""What is made of a table's columns by expressions, each of which depends on their types."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blizzard.config.expressions.tokens import names_in
from spark_job.table.constraints import conditions_of
from spark_job.table.file_layout import GENERATED, TableDescription

_INSIDE = frozenset({"element", "key", "value"})
"""How paths name the elements of arrays, and the keys and values of maps, which expressions do not name."""


@dataclass(frozen=True, slots=True)
class Dependent:
    """`label`: what has the expression."""

    label: str
    sql: str

    def names(self, path: Sequence[str]) -> bool:
        """Whether the expression may name this column, or all names on the way to this field."""
        names = names_in(self.sql)
        return path[0].lower() in names and all(part.lower() in names for part in path[1:] if part not in _INSIDE)


def dependents_of(table: TableDescription) -> Iterator[Dependent]:
    """Its CHECK constraints, and the columns that it generates."""
    for name, sql in sorted(conditions_of(table).items()):
        yield Dependent(f"constraint {name} ({sql})", sql)
    for field in table.schema:
        if GENERATED in field.metadata:
            sql = field.metadata[GENERATED]
            yield Dependent(f"column {field.name}, which the table generates as {sql},", sql)
