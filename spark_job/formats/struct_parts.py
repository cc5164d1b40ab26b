"""Walks down a column's type to the structs in it."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)
P_co = TypeVar("P_co", covariant=True)


class MakeElements(Protocol[P_contra, P_co]):
    """Of an array, or of a map by its values."""

    def __call__(self, part: P_contra, /, *, of_map: bool) -> P_co: ...


def parts_of(
    schema: StructType, struct: Callable[[StructType], P], elements: MakeElements[P, P]
) -> list[tuple[str, P]]:
    """The parts of its fields that have one, each with the field's name."""
    parts = ((field.name, part_of(field.dataType, struct, elements)) for field in schema)
    return [(name, part) for name, part in parts if part is not None]


def part_of(data_type: DataType, struct: Callable[[StructType], P], elements: MakeElements[P, P]) -> P | None:
    """What `struct` makes of the structs in a type, and `elements` of the arrays and maps around them; None if there is
    no struct in it."""
    if isinstance(data_type, StructType):
        return struct(data_type)
    if isinstance(data_type, ArrayType | MapType):
        of_map = isinstance(data_type, MapType)
        inner = data_type.valueType if isinstance(data_type, MapType) else data_type.elementType
        part = part_of(inner, struct, elements)
        return None if part is None else elements(part, of_map=of_map)
    return None
