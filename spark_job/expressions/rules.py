"""What rows have to satisfy and get before they are written: derived columns, and checks. Made on the driver, used in
tasks."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from pyspark.sql.types import StructField, StructType


@dataclass(frozen=True, slots=True)
class Derived:
    """A column with the value of an expression. `by_spark`: only Spark evaluates it."""

    name: str
    sql: str
    by_spark: bool

    @property
    def label(self) -> str:
        return f"column {self.name}: {_short(self.sql)}"


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that is true for each row of the table; neither false nor null. `label`: what a dead letter calls
    it. `refusal`: what it says of a row for which it is not true."""

    label: str
    sql: str
    refusal: str
    by_spark: bool


@dataclass(frozen=True, slots=True)
class RowRules:
    """`columns`: Spark's JSON of all columns that expressions may name, the derived ones and those that the rows do not
    have, which are null, included. `empty_is_null`: columns whose "" the table stores as null."""

    derived: tuple[Derived, ...] = ()
    checks: tuple[Check, ...] = ()
    columns: str = '{"type": "struct", "fields": []}'
    empty_is_null: tuple[str, ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The rules from the result of `asdict`, also after a round trip through JSON."""
        derived = tuple(Derived(**column) for column in document["derived"])
        checks = tuple(Check(**check) for check in document["checks"])
        return cls(derived, checks, document["columns"], tuple(document["empty_is_null"]))

    def same_as(self, other: "RowRules") -> bool:
        """Whether rows that satisfy the one satisfy the other, whatever other columns the table has."""
        return (self.derived, self.checks) == (other.derived, other.checks)

    @property
    def need_tasks(self) -> bool:
        of_tasks = self.of_tasks()
        return bool(of_tasks.derived or of_tasks.checks)

    @property
    def need_spark(self) -> bool:
        return any(self._by_spark())

    @property
    def first_for_spark(self) -> str:
        """The rule for which Spark is needed, as a person knows it."""
        return next(self._by_spark())

    def _by_spark(self) -> Iterator[str]:
        yield from (column.label for column in self.derived if column.by_spark)
        yield from (check.label for check in self.checks if check.by_spark)

    def of_tasks(self) -> "RowRules":
        """Without those that only Spark evaluates, and those that have to come after them."""
        return replace(
            self,
            derived=tuple(column for column in self.derived if not column.by_spark),
            checks=tuple(check for check in self.checks if not check.by_spark),
        )

    def of_spark(self) -> "RowRules":
        """The others than `of_tasks`."""
        return replace(
            self,
            derived=tuple(column for column in self.derived if column.by_spark),
            checks=tuple(check for check in self.checks if check.by_spark),
        )

    def struct(self) -> StructType:
        return StructType.fromJson(json.loads(self.columns))

    def derived_fields(self) -> list[StructField]:
        types = self.struct()
        return [types[column.name] for column in self.derived]


def _short(sql: str) -> str:
    return sql if len(sql) <= 200 else f"{sql[:200]}…"
