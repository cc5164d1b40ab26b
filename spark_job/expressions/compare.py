"""Comparisons as Spark makes them: NaN equals itself and is above every other number, and texts compare by bytes."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def compare(operator: str, left: Any, right: Any) -> Any:
    if pa.types.is_boolean(left.type):
        left, right = pc.cast(left, pa.int8()), pc.cast(right, pa.int8())
    if operator == "<=>":
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.if_else(both_null, True, pc.fill_null(_equal(left, right), False))
    match operator:
        case "=":
            return _equal(left, right)
        case "<>":
            return pc.invert(_equal(left, right))
        case "<":
            return _less(left, right)
        case ">":
            return _less(right, left)
        case "<=":
            return pc.invert(_less(right, left))
    return pc.invert(_less(left, right))


def _equal(left: Any, right: Any) -> Any:
    found = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        return pc.or_(found, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return found


def _less(left: Any, right: Any) -> Any:
    found = pc.less(left, right)
    if pa.types.is_floating(left.type):
        return pc.or_(found, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))
    return found
