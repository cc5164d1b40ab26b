"""What another reader makes of a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import StructType


class NoReference(Exception):
    """The other reader cannot read the file, or cannot show its values."""


@dataclass(frozen=True, slots=True)
class Reference:
    """`rows`: None if the other reader has no objects for the values, and only `count` can be compared. `refused`: how
    many of the records have to be refused, which are not among `rows`; None: the other reader cannot tell. `options`:
    with which the format reads the file."""

    schema: StructType
    count: int
    rows: list[dict[str, Any]] | None
    refused: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
