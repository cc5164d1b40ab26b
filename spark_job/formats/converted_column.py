"""A column in its final Arrow type, which of its values are doubtful, and which are missing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructField


@dataclass(frozen=True, slots=True)
class Missing:
    """Rows in which a field that is NOT NULL has no value. `path`: of the field, from the column on."""

    path: str
    rows: frozenset[int]


@dataclass(frozen=True, slots=True)
class TakenOut:
    """Rows in which a field became null because its value does not fit. `path`: of the field, from the column on."""

    path: tuple[str, ...]
    rows: frozenset[int]


@dataclass(frozen=True, slots=True)
class ConvertedColumn:
    """A column in its final type. `doubtful`: rows whose value must not be used. `underflowed`: rows with a decimal
    that a double read as 0, whatever small number its text is. `missing`: in the order of the schema."""

    values: pa.Array
    doubtful: frozenset[int] = frozenset()
    underflowed: frozenset[int] = frozenset()
    missing: Sequence[Missing] = ()
    taken_out: Sequence[TakenOut] = ()

    def without_misfits(self, field: StructField) -> "ConvertedColumn":
        """With null where a value does not fit, which is then among `taken_out`, if the field may be null."""
        rows = self.doubtful
        if not rows or not field.nullable:
            return self
        kept = pa.array([row not in rows for row in range(len(self.values))])
        return replace(
            self,
            values=pc.if_else(kept, self.values, pa.scalar(None, self.values.type)),
            doubtful=frozenset(),
            missing=[Missing(one.path, one.rows - rows) for one in self.missing],
            taken_out=[*(TakenOut(one.path, one.rows - rows) for one in self.taken_out), TakenOut((), rows)],
        )


def missing_in(field: StructField, column: ConvertedColumn, parent_is_null: pa.Array | None) -> Iterator[Missing]:
    """What is missing of a field, and then inside it: the order in which `schema_checks` looks. `parent_is_null`: rows
    in which the struct that has the field is null; None: it never is."""
    values = column.values
    if not field.nullable and values.null_count:
        nulls = values.is_null()
        yield Missing(field.name, rows_where(nulls if parent_is_null is None else pc.and_not(nulls, parent_is_null)))
    for inner in column.missing:
        yield Missing(field.name + inner.path, inner.rows)


def rows_where(mask: pa.Array) -> frozenset[int]:
    """Rows at which a mask is true."""
    if not pc.any(mask).as_py():
        return frozenset()
    return frozenset(pc.indices_nonzero(mask.fill_null(False)).to_pylist())


def rows_outside(values: pa.Array, first: pa.Scalar, last: pa.Scalar) -> frozenset[int]:
    return rows_where(pc.or_(pc.less(values, first), pc.greater(values, last)))


def convert_one_by_one(values: pa.Array, wanted: pa.DataType, read: Callable[[str], Any]) -> ConvertedColumn:
    texts = values.to_pylist()
    made = [None if text is None else read(text) for text in texts]
    doubtful = frozenset(row for row, value in enumerate(made) if value is None and texts[row] is not None)
    return ConvertedColumn(pa.array(made, wanted), doubtful)
