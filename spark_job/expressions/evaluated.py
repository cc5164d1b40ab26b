"""What an expression gives for each row of a batch."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Failure:
    """Rows on which Spark's evaluation fails: `rows` is true there, and never null."""

    rows: pa.Array
    why: str


@dataclass(frozen=True, slots=True)
class Evaluated:
    """`values`: one for each row, or a scalar for all of them. Where it fails, the value means nothing."""

    values: Any
    failures: tuple[Failure, ...] = ()

    def only_where(self, evaluated: pa.Array | pa.Scalar) -> "Evaluated":
        """Without failures on rows that Spark does not evaluate. `evaluated` is never null."""
        if not self.failures:
            return self
        return replace(self, failures=tuple(Failure(pc.and_(f.rows, evaluated), f.why) for f in self.failures))

    def failing_where(self, rows: pa.Array | pa.Scalar, why: str) -> "Evaluated":
        """Fails also on rows where `rows` is true; null counts as false."""
        if isinstance(rows, pa.Scalar):
            rows = pa.array([rows.as_py()], pa.bool_())
        if not pc.any(rows).as_py():
            return self
        return replace(self, failures=(*self.failures, Failure(pc.fill_null(rows, False), why)))


def failures_of(parts: Iterable[Evaluated]) -> tuple[Failure, ...]:
    return tuple(failure for part in parts for failure in part.failures)


def each_text(values: Any, kind: pa.DataType, convert: Callable[[str], Any]) -> Any:
    """By Python, each different text once; null where `convert` gives None."""
    if isinstance(values, pa.Scalar):
        return pa.scalar(convert(values.as_py()) if values.is_valid else None, kind)
    encoded = values.dictionary_encode()
    made = pa.array([convert(text) for text in encoded.dictionary.to_pylist()], kind)
    return made.take(encoded.indices)


def lost(before: Any, after: Any) -> Any:
    """Where a value has become null."""
    return pc.and_(pc.is_valid(before), pc.is_null(after))
