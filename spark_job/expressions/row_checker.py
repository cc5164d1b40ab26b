"""Applies the rules of rows that tasks evaluate, on Arrow tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_job.expressions.common_parts import CommonParts
from spark_job.expressions.evaluate import arrow_type, evaluate
from spark_job.expressions.evaluated import Evaluated
from spark_job.expressions.rules import RowRules
from spark_job.expressions.spark_types import ddl_types
from spark_job.expressions.understood import understood


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """`rows`: those that satisfy all rules, with their derived columns; `kept`: their numbers among all rows, None for
    all. `refused`: the numbers of the others with the reason, in order."""

    rows: pa.Table
    kept: pa.Array | None
    refused: Sequence[tuple[int, str]]


class RowChecker:
    """Applies the rules that tasks evaluate. Threads share it."""

    def __init__(self, rules: RowRules) -> None:
        of_tasks, columns = rules.of_tasks(), rules.struct()
        self._derived = [(column, understood(column.sql, columns)) for column in of_tasks.derived]
        self._checks = [(check, understood(check.sql, columns)) for check in of_tasks.checks]
        self._parts = CommonParts([expression for _, expression in (*self._derived, *self._checks)])
        self._types = {name: arrow_type(kind) for name, kind in ddl_types(columns.fields).items()}
        self._empty_is_null = frozenset(rules.empty_is_null)

    @property
    def idle(self) -> bool:
        return not self._derived and not self._checks

    def apply(self, rows: pa.Table) -> CheckedRows:
        if self.idle or not rows.num_rows:
            return CheckedRows(self._with_derived_types(rows), None, ())
        refused: dict[int, str] = {}
        made = dict[str, pa.Array]()
        as_read, known = _ColumnValues(rows, self._types), self._parts.begin()
        for column, expression in self._derived:
            found = evaluate(expression, as_read, known)
            made[column.name] = _whole(found.values, rows.num_rows, arrow_type(expression.type))
            _refuse(refused, found, f"{column.label} fails", rows.num_rows)
        for name, values in made.items():
            rows = rows.append_column(name, values)
        as_stored, known = _ColumnValues(rows, self._types, self._empty_is_null), self._parts.begin()
        for check, expression in self._checks:
            found = evaluate(expression, as_stored, known)
            _refuse(refused, found, f"{check.label} fails", rows.num_rows)
            for row in _not_true(found.values, rows.num_rows):
                refused.setdefault(row, check.refusal)
        if not refused:
            return CheckedRows(rows, None, ())
        kept = pa.array([row for row in range(rows.num_rows) if row not in refused], pa.int64())
        return CheckedRows(rows.take(kept), kept, sorted(refused.items()))

    def _with_derived_types(self, rows: pa.Table) -> pa.Table:
        for column, expression in self._derived:
            rows = rows.append_column(column.name, pa.nulls(rows.num_rows, arrow_type(expression.type)))
        return rows


class _ColumnValues:
    """Columns by name, each prepared when it is first asked for."""

    def __init__(self, rows: pa.Table, types: Mapping[str, pa.DataType], empty_is_null: frozenset[str] = frozenset()):
        self._rows = rows
        self._types = types
        self._empty_is_null = empty_is_null
        self._known: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = self._values(name)
        return self._known[name]

    def _values(self, name: str) -> Any:
        if name not in self._rows.schema.names:
            return pa.scalar(None, self._types[name])
        column = self._rows.column(name)
        values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if name in self._empty_is_null and pa.types.is_string(values.type):
            values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
        return values


def _whole(values: Any, count: int, kind: pa.DataType) -> pa.Array:
    """A constant text is in memory once."""
    if not isinstance(values, pa.Scalar):
        return values.cast(kind)
    if pa.types.is_string(kind) and values.is_valid:
        return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([values.as_py()]))
    return pa.repeat(values, count)


def _refuse(refused: dict[int, str], found: Evaluated, label: str, count: int) -> None:
    for failure in found.failures:
        for row in _where(failure.rows, count):
            refused.setdefault(row, f"{label}: {failure.why}")


def _not_true(values: Any, count: int) -> Iterator[int]:
    if isinstance(values, pa.Scalar):
        return iter(() if values.as_py() is True else range(count))
    if values.null_count == 0 and values.true_count == len(values):
        return iter(())
    return _where(pc.invert(pc.fill_null(values, False)), count)


def _where(mask: pa.Array, count: int) -> Iterator[int]:
    """`mask` has one value for each row, or one for all."""
    if len(mask) == 1 and count != 1:
        return iter(range(count) if mask[0].as_py() else ())
    return iter(pc.indices_nonzero(mask).to_pylist())
