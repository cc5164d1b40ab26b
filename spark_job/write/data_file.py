"""Data files of a table that no commit has added yet, and how they are written. What writes them is elsewhere: commits
need none of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from spark_job.expressions.rules import RowRules


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file in the table's folder that no commit has added yet."""

    path: str
    """Key below the table's root, not URL-encoded."""
    size: int
    """Bytes."""
    rows: int
    modified_ts: float
    """Unix seconds."""
    partition_values: Mapping[str, str | None]
    """The value of every `partition_by` column, as in Delta's log; "" counts as null."""
    stats: str
    """Delta's statistics, as JSON text."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How files for the table are written: decided on the driver, used by the writers in tasks."""

    folder: str
    """Prefix of new files below the table's root: "", or a path that ends in `/`."""
    partition_by: tuple[str, ...]
    stats_columns: tuple[str, ...]
    """Dotted paths of the leaves that get statistics: `id`, `_source.file`."""
    string_prefix_chars: int
    target_file_bytes: int
    members: bool = False
    """Whether `_source` has the field `member`."""
    rules: RowRules = field(default_factory=RowRules)
    """What the rows satisfy and get before they are written."""

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The layout from the result of `asdict`, also after a round trip through JSON."""
        tuples = {name: tuple(document[name]) for name in ("partition_by", "stats_columns")}
        return cls(**{**document, **tuples, "rules": RowRules.from_document(document["rules"])})

    def staged(self, folder: str) -> Self:
        """For the same rows before Spark has evaluated what only Spark evaluates."""
        rules = self.rules.of_tasks()
        return replace(self, folder=folder, partition_by=(), stats_columns=(), string_prefix_chars=0, rules=rules)
