"""The fields of `pipelines.yaml`. Their descriptions are also in the JSON Schema, for editors."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
)

from blizzard.config import source_names, uri
from blizzard.config.formats import FILE_FORMATS, FormatName, format_help, schema_help
from blizzard.paths.partition import PartitionType, TimeTemplate
from blizzard.paths.pattern import Pattern

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"

_PREFIXES = tuple(enumerate("kmgt", 1))
_UNITS = {"": 1, "b": 1, **{f"{k}b": 1000**n for n, k in _PREFIXES}, **{f"{k}ib": 1024**n for n, k in _PREFIXES}}
_SIZE_PATTERN = r"^\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*((?:[KkMmGgTt][Ii]?)?[Bb]|)\s*$"
_SIZE = re.compile(_SIZE_PATTERN.replace("$", r"\Z"))


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"found {str(value).lower()}, expected a number")  # noqa: TRY004 - pydantic collects ValueError
    return value


def _size_bytes(value: object) -> object:
    if not isinstance(value, str):
        return _no_bool(value)
    match = _SIZE.match(value)
    size = Decimal(match[1]) * _UNITS[match[2].lower()] if match else None
    if size is None or size != int(size):
        raise ValueError(f"found {value!r:.80}, expected a size such as 1GiB, 512 MB or 1048576 (a number of bytes)")
    return int(size)


def _source_uri(text: str, info: ValidationInfo) -> str:
    return uri.source_uri(text, _folder(info))


def _table_uri(text: str, info: ValidationInfo) -> str:
    return uri.table_uri(text, _folder(info))


def _folder(info: ValidationInfo) -> str | None:
    return info.context.get("folder") if isinstance(info.context, dict) else None


def _pattern(text: str) -> str:
    Pattern(text)
    return text


def _prefix_template(text: str) -> str:
    TimeTemplate(text)
    return text


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


Name = Annotated[str, StringConstraints(pattern=NAME)]
Count = Annotated[int, Field(ge=1), BeforeValidator(_no_bool)]
Secs = Annotated[float, Field(ge=0, allow_inf_nan=False), BeforeValidator(_no_bool)]
PositiveSecs = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(_no_bool)]
Bytes = Annotated[
    int,
    Field(ge=1),
    BeforeValidator(_size_bytes),
    WithJsonSchema({"type": ["integer", "string"], "minimum": 1, "pattern": _SIZE_PATTERN}),
]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PartitionFilter(Section):
    """Which dated folders of a source are still open."""

    prefix_template: Annotated[str, AfterValidator(_prefix_template)] = Field(
        description="The leading folders of a file's path as a strftime template in UTC, such as date=%Y-%m-%d. "
        "%Y comes first, then %m, %d, %H, %M as far as they are needed; %j may stand for %m and %d.",
        examples=["date=%Y-%m-%d", "year=%Y/month=%m/day=%d"],
    )
    lookback: Count = Field(
        description="How many of the latest such folders stay open, today's included (in steps of the template's "
        "finest unit). Older ones close when they have been quiet; a first run begins with the oldest open one."
    )


class Checkpoint(Section):
    """When a batch is full. Whatever comes first ends it."""

    interval_files: Count = Field(default=1000, description="Files in one batch, at most.")
    interval_bytes: Bytes = Field(default=1 << 30, description="Bytes of files (as stored) in one batch, at most.")
    interval_secs: Secs = Field(
        default=60, description="Seconds since the last commit after which a batch goes in though not full."
    )


class Sweep(Section):
    """How often a source is listed for files that no event announced."""

    interval_secs: PositiveSecs = Field(
        default=60,
        description="Seconds between two sweeps of the source, by `blizzard run` or by the sweeper on AWS, which comes "
        "once a minute. Also how long `blizzard run` leaves a source alone after a failure.",
    )
    late_interval_secs: PositiveSecs = Field(
        default=3600,
        description="Seconds between two late sweeps, which look for files that sort before those ingested.",
    )
    late_overlap_secs: Secs = Field(
        default=86_400,
        description="Seconds that a late sweep looks back behind the last one. As long as the longest upload, "
        "at least: S3 dates a multipart object by its start.",
    )


class Limits(Section):
    """What no file may exceed, so that memory and state stay bounded."""

    max_record_bytes: Bytes = Field(
        default=16 << 20, description="Bytes of one record. A file with a longer one is dead-lettered."
    )
    max_file_bytes: Bytes = Field(
        default=64 << 30, description="Bytes of one file, decompressed. A larger one is dead-lettered."
    )
    max_tracked_files: Count = Field(
        default=1000,
        description="Ingested files that the checkpoint names one by one, before the job settles them by listing.",
    )
    task_memory_bytes: Bytes = Field(
        default=256 << 20,
        description="About what one task of the job holds at a time: objects fetched ahead, lines, rows that wait to "
        "be written. Spark's memoryOverhead has to cover it for every core of an executor.",
    )


class Retries(Section):
    """What happens when storage or Delta ask to come again."""

    max_attempts: Count = Field(default=8, description="Attempts of one call, the first included.")
    max_backoff_secs: PositiveSecs = Field(default=20, description="Seconds of the longest pause between two attempts.")


class Source(Section):
    """A place where files land, and how to read them."""

    uri: Annotated[str, AfterValidator(_source_uri)] = Field(
        description="The folder or prefix: s3://bucket/prefix/, file:///folder/ or a path, which may be relative to "
        "the configuration's folder. No other source and no table may lie in it.",
        examples=["s3://landing/raw-events/"],
    )
    pattern: Annotated[str, AfterValidator(_pattern)] = Field(
        default="**",
        description="Which files below the uri: ** any number of folders, * and ? within a name, [a-z], {a,b}.",
        examples=["**/*.ndjson.gz"],
    )
    format: FormatName = Field(default="ndjson", description=format_help())
    compression: Literal["auto", "gzip", "zstd", "none"] = Field(
        default="auto", description="auto goes by the file's extension: .gz and .gzip, .zst and .zstd, else none."
    )
    schema_ddl: str | None = Field(
        default=None,
        alias="schema",
        description=schema_help(),
        examples=["id STRING NOT NULL, timestamp BIGINT, value DOUBLE, payload STRING"],
    )
    partition_columns: dict[str, Annotated[PartitionType, BeforeValidator(_lower)]] = Field(
        default={},
        description="Columns taken from folders such as date=2024-01-28, each with its type.",
        examples=[{"date": "date"}],
    )
    partition_filter: PartitionFilter | None = Field(
        default=None, description="For dated folders: how long one stays open. Without it, every folder does."
    )
    checkpoint: Checkpoint = Field(default=Checkpoint(), description="When a batch is full.")
    settle_delay_secs: Secs = Field(
        default=60,
        description="Seconds a file must be old before a sweep settles it; slower neighbours need that time to appear.",
    )
    on_overwrite: Literal["ignore", "dead_letter", "replace"] = Field(
        default="ignore",
        description="What to do with a file that changed after it was ingested: ignore (and count) the change, "
        "dead_letter it, or replace the rows of the old content.",
    )
    sweep: Sweep = Field(default=Sweep(), description="How often the source is listed.")
    limits: Limits = Field(default=Limits(), description="What no file may exceed.")
    retries: Retries = Field(default=Retries(), description="How often, and how long, a failed call is repeated.")

    _pipeline: str = PrivateAttr("")
    _name: str = PrivateAttr("")

    @property
    def name(self) -> str:
        return self._name

    @property
    def pipeline(self) -> str:
        """Name of the pipeline that the source feeds."""
        return self._pipeline

    @property
    def id(self) -> str:
        return source_names.source_id(self._pipeline, self._name)

    @property
    def state_prefix(self) -> str:
        """Relative to the table's URI, without a `/` at its end."""
        return source_names.state_prefix(self._pipeline, self._name)

    @property
    def row_ddl(self) -> str:
        """The columns of a record, whatever the format, without those that come from folder names."""
        fixed = FILE_FORMATS[self.format].fixed_schema
        return (self.schema_ddl or "") if fixed is None else fixed


class Pipeline(Section):
    """One Delta table and the sources that feed it."""

    table_uri: Annotated[str, AfterValidator(_table_uri)] = Field(
        description="The Delta table: s3://bucket/table, file:///folder or a path, which may be relative to "
        "the configuration's folder. It is created when it is not there.",
        examples=["s3://lake/events"],
    )
    partition_by: list[str] = Field(
        default=[],
        description="The table's partition columns, of each source's `schema` or `partition_columns`. "
        "They count when the table is created.",
        examples=[["date"]],
    )
    target_file_bytes: Bytes = Field(
        default=128 << 20,
        description="Size at which the job begins another data file of a table partition.",
    )
    linger_secs: Secs = Field(
        default=0,
        description="Seconds for which a draining job still looks for new files after its backlog is gone, so that "
        "under steady traffic they need not wait for the next start.",
    )
    sources: dict[Name, Source] = Field(description="The sources that feed the table, by name.")

    _name: str = PrivateAttr("")

    @property
    def name(self) -> str:
        return self._name


class Config(Section):
    """The whole file."""

    pipelines: dict[Name, Pipeline] = Field(description="The pipelines, by name: letters, digits, _ and -, at most 63.")

    def model_post_init(self, context: Any, /) -> None:
        for name, pipeline in self.pipelines.items():
            pipeline._name = name
            for source_name, source in pipeline.sources.items():
                source._pipeline, source._name = name, source_name

    def sources(self) -> Iterator[tuple[Pipeline, Source]]:
        """Every source with its pipeline, in the order of the file."""
        return ((pipeline, source) for pipeline in self.pipelines.values() for source in pipeline.sources.values())
