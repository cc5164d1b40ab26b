"""What `blizzard init` found, as the process that looks hands it to the command that shows it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from pydantic import TypeAdapter

ENOUGH_RECORDS = 100
"""Fewer do not suggest that a column is never null."""


@dataclass(frozen=True, slots=True)
class ColumnFound:
    """`seen`: in how many of the `records` that were looked at it has a value. `conflicts`: how many values, or
    files, have which type, if the column holds some of them as text, or perhaps not all."""

    name: str
    type: str
    seen: int
    records: int
    examples: Sequence[str] = ()
    conflicts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeftOutField:
    path: str
    why: str


@dataclass(frozen=True, slots=True)
class RuleFound:
    """How files of one pattern are read. `options`: only those that are not the default. `files`: how many of the
    `opened` ones are of this format. `why`: by option, what the files show."""

    pattern: str
    format: str
    compression: str
    options: Mapping[str, Any]
    notes: Sequence[str] = ()
    files: int = 0
    opened: int = 0
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DatedFound:
    """`lookback`: how many of the latest folders reach back to the oldest file, and a few more."""

    prefix_template: str
    lookback: int


@dataclass(frozen=True, slots=True)
class SourceFound:
    """`schema`: in DDL; empty for a format that has its own. `fields`: columns with another name than the key in the
    files, with that. `spellings`: of keys that differ in case only, and are one column each. `files`, `bytes`: of those
    that were listed; `looked_at` of them were opened. `broken`: records that cannot be read."""

    name: str
    uri: str
    pattern: str
    rules: Sequence[RuleFound]
    schema: str
    columns: Sequence[ColumnFound]
    left_out: Sequence[LeftOutField]
    partition_columns: Mapping[str, str]
    dated: DatedFound | None
    settle_delay_secs: float | None
    interval_files: int | None
    interval_bytes: int | None
    files: int
    bytes: int
    looked_at: int
    records: int
    broken: int
    notes: Sequence[str] = ()
    settle_why: str = ""
    """What the times of the files show."""
    interval_why: str = ""
    """What their sizes show."""
    fields: Mapping[str, str] = field(default_factory=dict)
    spellings: Sequence[Sequence[str]] = ()

    @property
    def always_there(self) -> Sequence[str]:
        """The columns that all records have, if they are enough to suggest something."""
        return [column.name for column in self.columns if column.seen == column.records >= ENOUGH_RECORDS]


@dataclass(frozen=True, slots=True)
class PipelineFound:
    """`exists`: whether there is a table at `table_uri`."""

    name: str
    table_uri: str
    partition_by: Sequence[str]
    sources: Sequence[SourceFound]
    notes: Sequence[str] = ()
    cluster_by: Sequence[str] = ()
    """What may be worth it, for a person to decide."""
    exists: bool = False


@dataclass(frozen=True, slots=True)
class FilesLeftOut:
    """Files that no source reads."""

    files: int
    example: str
    why: str


@dataclass(frozen=True, slots=True)
class Findings:
    """`is_whole`: whether all names were listed."""

    uri: str
    table_uri: str
    files: int
    bytes: int
    is_whole: bool
    requests: int
    pipelines: Sequence[PipelineFound]
    left_out: Sequence[FilesLeftOut]

    def sources(self) -> Iterator[tuple[PipelineFound, SourceFound]]:
        return ((pipeline, source) for pipeline in self.pipelines for source in pipeline.sources)

    @property
    def known_tables(self) -> bool:
        """Whether one of the tables exists."""
        return any(pipeline.exists for pipeline in self.pipelines)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, found: Any) -> Self:
        return TypeAdapter(cls).validate_python(found)
