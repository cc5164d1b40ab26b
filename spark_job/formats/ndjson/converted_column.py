"""A column in its final Arrow type, and which of its values are doubtful."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class ConvertedColumn:
    """A column in its final type. `doubtful`: rows whose value must not be used. `underflowed`: rows with a decimal
    that a double read as 0, whatever small number its text is."""

    values: pa.Array
    doubtful: frozenset[int] = frozenset()
    underflowed: frozenset[int] = frozenset()


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
