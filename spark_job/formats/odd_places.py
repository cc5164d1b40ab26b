"""The places of a schema at which a value that does not fit can be taken out, while the rest of its record stays."""

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql.types import DataType, StructField, StructType

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A field that is no struct, in the record or in structs of it: what is inside an array or a map is not told apart.
    `nullable`: for each name of the path, whether the field there is."""

    path: Path
    data_type: DataType
    alone: StructType
    """A schema of this field alone, with nothing NOT NULL."""
    nullable: tuple[bool, ...]

    @property
    def may_be_taken_out(self) -> bool:
        """Whether there is something nullable."""
        return any(self.nullable)

    def taken_out(self, depth: int) -> Path | None:
        """What becomes null if the value at this depth of the path does not fit: the nearest field that is nullable.
        None: nothing may be null there, so that the record is refused."""
        for length in range(min(depth, len(self.path)), 0, -1):
            if self.nullable[length - 1]:
                return self.path[:length]
        return None


def places(schema: StructType) -> list[Place]:
    return [*_places(schema, (), ())]


def _places(schema: StructType, path: Path, nullable: tuple[bool, ...]) -> Iterator[Place]:
    for field in schema:
        here, may_be_null = (*path, field.name), (*nullable, field.nullable)
        if isinstance(field.dataType, StructType) and field.dataType.names:
            yield from _places(field.dataType, here, may_be_null)
        else:
            yield Place(here, field.dataType, _alone(here, field), may_be_null)


def _alone(path: Path, field: StructField) -> StructType:
    made = StructType([StructField(path[-1], field.dataType)])
    for name in reversed(path[:-1]):
        made = StructType([StructField(name, made)])
    return made
