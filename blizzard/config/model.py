"""The fields of `pipelines.yaml`. Their descriptions are also in the JSON Schema, for editors."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
)

from blizzard.config import source_names, uri
from blizzard.config.compressions import AUTO, CompressionName, auto_help
from blizzard.config.format_options import CsvOptions, JsonOptions, TextOptions, XmlOptions
from blizzard.config.formats import FILE_FORMATS, INFER, MIXED, FormatName, format_help, schema_help
from blizzard.config.schema_rule_options import SchemaRuleOptions
from blizzard.config.schema_rules import RESCUED
from blizzard.config.section import Section, no_bool
from blizzard.paths.partition import PartitionType, TimeTemplate
from blizzard.paths.pattern import Pattern

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"

_PREFIXES = tuple(enumerate("kmgt", 1))
_UNITS = {"": 1, "b": 1, **{f"{k}b": 1000**n for n, k in _PREFIXES}, **{f"{k}ib": 1024**n for n, k in _PREFIXES}}
_SIZE_PATTERN = r"^\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*((?:[KkMmGgTt][Ii]?)?[Bb]|)\s*$"
_SIZE = re.compile(_SIZE_PATTERN.replace("$", r"\Z"))


def _size_bytes(value: object) -> object:
    if not isinstance(value, str):
        return no_bool(value)
    match = _SIZE.match(value)
    size = Decimal(match[1]) * _UNITS[match[2].lower()] if match else None
    if size is None or size != int(size):
        raise ValueError(f"found {value!r:.80}, expected a size such as 1GiB, 512 MB or 1048576 (a number of bytes)")
    return int(size)


def _source_uri(text: str, info: ValidationInfo) -> str:
    return uri.source_uri(text, _folder(info))


def _table_uri(text: str, info: ValidationInfo) -> str:
    return uri.table_uri(text, _folder(info))


def _inventory_uri(text: str) -> str:
    return uri.inventory_uri(text)


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
Count = Annotated[int, Field(ge=1), BeforeValidator(no_bool)]
Secs = Annotated[float, Field(ge=0, allow_inf_nan=False), BeforeValidator(no_bool)]
PositiveSecs = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(no_bool)]
Bytes = Annotated[
    int,
    Field(ge=1),
    BeforeValidator(_size_bytes),
    WithJsonSchema({"type": ["integer", "string"], "minimum": 1, "pattern": _SIZE_PATTERN}),
]


class PartitionFilter(Section):
    """Which dated folders of a source are still open."""

    prefix_template: Annotated[str, AfterValidator(_prefix_template)] = Field(
        description="The leading folders of a file's path as a strftime template in UTC, such as date=%Y-%m-%d. "
        "Start with %Y, then add as many of %m, %d, %H, %M as needed, in this order. %j can replace %m and %d.",
        examples=["date=%Y-%m-%d", "year=%Y/month=%m/day=%d"],
    )
    lookback: Count = Field(
        description="How many of the latest folders stay open, including the current one, counted in the template's "
        "finest unit. An older folder is closed after it had no new files for a while. The first run starts with the "
        "oldest open folder."
    )


class Checkpoint(Section):
    """The limits of a batch. The limit that is reached first ends the batch."""

    interval_files: Count = Field(default=1000, description="Maximum number of files in one batch.")
    interval_bytes: Bytes = Field(default=1 << 30, description="Maximum size of one batch in bytes of stored files.")
    interval_secs: Secs = Field(
        default=60, description="Seconds after the last commit at which a batch is started although it is not full."
    )


class Sweep(Section):
    """How often a source is listed for files that no event announced."""

    interval_secs: PositiveSecs = Field(
        default=60,
        description="Seconds between two sweeps of the source, by `blizzard run` or by the sweeper on AWS, which runs "
        "once a minute. Also how long `blizzard run` waits before it retries a source after a failure.",
    )
    late_interval_secs: PositiveSecs = Field(
        default=3600,
        description="Seconds between two late sweeps, which look for files that sort before files already ingested.",
    )
    late_overlap_secs: Secs = Field(
        default=86_400,
        description="How many seconds before the start of the previous late sweep a late sweep looks back. Set it to "
        "at least the duration of the longest upload: S3 dates a multipart object by the start of its upload.",
    )
    unordered_requests: Annotated[int, Field(ge=0), BeforeValidator(no_bool)] = Field(
        default=60,
        description="For how many LIST requests, of 1,000 files each, a sweep lists folders whose files are named in "
        "no order. 0: only late sweeps look there.",
    )
    quiet_secs: Secs = Field(
        default=86_400,
        description="In a source with more than 1,000 folders, a folder without a new file for so many seconds is "
        "looked at only once in this time. 0: each sweep looks at all folders.",
    )


class Limits(Section):
    """Limits that keep memory and state bounded."""

    max_record_bytes: Bytes = Field(
        default=16 << 20, description="Maximum size of one record. A file with a larger one is dead-lettered."
    )
    max_file_bytes: Bytes = Field(
        default=64 << 30, description="Maximum size of one file, decompressed. A larger file is dead-lettered."
    )
    max_tracked_files: Count = Field(
        default=1000,
        description="No longer used: the checkpoint does not name ingested files any more. Still accepted.",
    )
    task_memory_bytes: Bytes = Field(
        default=256 << 20,
        description="Approximate memory of one task of the job: prefetched objects, lines, and rows that are not "
        "written yet. Spark's memoryOverhead has to cover it for every core of an executor.",
    )


class Retries(Section):
    """How transient errors of storage and Delta are retried."""

    max_attempts: Count = Field(default=8, description="Maximum number of attempts of one call, including the first.")
    max_backoff_secs: PositiveSecs = Field(default=20, description="Maximum seconds between two attempts.")


class HowToRead(Section):
    """What files hold: their format, with its options, and their compression."""

    format: FormatName = Field(default="ndjson", description=format_help())
    compression: CompressionName = Field(default=AUTO, description=auto_help())
    csv_options: CsvOptions | None = Field(default=None, alias="csv", description="The options of `format: csv`.")
    json_options: JsonOptions | None = Field(default=None, alias="json", description="The options of `format: json`.")
    text_options: TextOptions | None = Field(default=None, alias="text", description="The options of `format: text`.")
    xml_options: XmlOptions | None = Field(default=None, alias="xml", description="The options of `format: xml`.")

    @property
    def format_options(self) -> dict[str, Any]:
        """The block of the format, as JSON values with every default filled in."""
        options = FILE_FORMATS[self.format].options
        if options is None:
            return {}
        block = getattr(self, f"{self.format}_options") or options()
        return dict(block.model_dump(mode="json"))

    @property
    def file_compression(self) -> str:
        """As `compression_of` takes it."""
        is_compressed = FILE_FORMATS[self.format].may_be_compressed
        return self.compression if is_compressed or self.compression != AUTO else "none"


class ReadRule(HowToRead):
    """Which files of a source with `format: mixed` are read in which way."""

    pattern: Annotated[str, AfterValidator(_pattern)] = Field(
        description="Which of the source's files the rule is for, as `pattern` of the source. The first rule that "
        "matches a file reads it."
    )


class Source(SchemaRuleOptions, HowToRead):
    """A folder or prefix where files land, and how to read them."""

    uri: Annotated[str, AfterValidator(_source_uri)] = Field(
        description="The folder or prefix: s3://bucket/prefix/, file:///folder/ or a path, which may be relative to "
        "the configuration's folder. It must not contain another source or a table.",
        examples=["s3://landing/raw-events/"],
    )
    pattern: Annotated[str, AfterValidator(_pattern)] = Field(
        default="**",
        description="Which files below the uri: ** matches any number of folders, * and ? match within a name; also "
        "[a-z] and {a,b}.",
        examples=["**/*.ndjson.gz"],
    )
    schema_ddl: str | None = Field(
        default=None,
        alias="schema",
        description=schema_help(),
        examples=["id STRING NOT NULL, timestamp BIGINT, value DOUBLE, payload STRING"],
    )
    mixed_options: Annotated[list[ReadRule], Field(min_length=1)] | None = Field(
        default=None,
        alias="mixed",
        description="The rules of `format: mixed`, by which its files are read. A file that none matches is "
        "dead-lettered.",
    )
    partition_columns: dict[str, Annotated[PartitionType, BeforeValidator(_lower)]] = Field(
        default={},
        description="Columns taken from folders such as date=2024-01-28, each with its type.",
        examples=[{"date": "date"}],
    )
    derive: dict[str, str] = Field(
        default={},
        description="Columns with the value of an expression of Spark SQL over the record's columns, those of its "
        "path, and `_source`. A record for which it fails is dead-lettered.",
        examples=[{"day": "date(timestamp_seconds(timestamp))"}],
    )
    partition_filter: PartitionFilter | None = Field(
        default=None, description="For dated folders: how long they stay open. Without it, all folders stay open."
    )
    checkpoint: Checkpoint = Field(default=Checkpoint(), description="When a batch is full.")
    settle_delay_secs: Secs = Field(
        default=60,
        description="Minimum age of a file in seconds before a sweep settles it. During this time a slower upload "
        "whose name sorts before it can still appear.",
    )
    on_overwrite: Literal["ignore", "dead_letter", "replace"] = Field(
        default="ignore",
        description="What to do with a file that changed after it was ingested. ignore: only count the change. "
        "dead_letter: dead-letter the new content. replace: replace the rows of the old content.",
    )
    sweep: Sweep = Field(default=Sweep(), description="How often the source is listed.")
    inventory: Annotated[str, AfterValidator(_inventory_uri)] | None = Field(
        default=None,
        description="Where S3 puts the Inventory reports of the source's bucket, with the bucket and the inventory's "
        "id: s3://bucket/prefix/source-bucket/id/. Late sweeps read the newest report (CSV) instead of listing.",
        examples=["s3://reports/inventory/landing/daily/"],
    )
    limits: Limits = Field(default=Limits(), description="Limits of records, files, state and memory.")
    retries: Retries = Field(default=Retries(), description="How failed calls are retried.")

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
    def infers_schema(self) -> bool:
        """Whether the schema is that of the table, which the first batch decides on."""
        return self.schema_ddl == INFER

    @property
    def row_ddl(self) -> str:
        """The DDL of a row's columns, for any format; empty if it is inferred. Partition columns are not included."""
        return self.with_rescued(self.record_ddl)

    def with_rescued(self, record_ddl: str) -> str:
        """The DDL of the rows of such records; empty if these are not known yet."""
        return f"{record_ddl}, {RESCUED} STRING" if record_ddl and self.schema_rules.rescues else record_ddl

    @property
    def record_ddl(self) -> str:
        """The DDL of a record's columns, without what is rescued of it."""
        fixed = {FILE_FORMATS[name].fixed_schema for name in self.formats}
        written = "" if self.infers_schema else self.schema_ddl
        return (fixed.pop() if len(fixed) == 1 else None) or written or ""

    @property
    def formats(self) -> tuple[str, ...]:
        """Of its files: those of its rules, if it has rules."""
        return tuple(rule.format for rule in self.mixed_options or ()) if self.format == MIXED else (self.format,)

    @property
    def format_options(self) -> dict[str, Any]:
        """As JSON values with every default filled in: the block of the format, or the rules of `mixed`."""
        if self.format != MIXED:
            return super().format_options
        rules = [
            {
                "pattern": rule.pattern,
                "format": rule.format,
                "compression": rule.file_compression,
                "options": rule.format_options,
            }
            for rule in self.mixed_options or ()
        ]
        return {"rules": rules}


class Pipeline(Section):
    """One Delta table and the sources that feed it."""

    table_uri: Annotated[str, AfterValidator(_table_uri)] = Field(
        description="The Delta table: s3://bucket/table, file:///folder or a path, which may be relative to "
        "the configuration's folder. It is created if it does not exist.",
        examples=["s3://lake/events"],
    )
    partition_by: list[str] = Field(
        default=[],
        description="The table's partition columns. Every source must have them in `schema` or `partition_columns`. "
        "They take effect when the table is created.",
        examples=[["date"]],
    )
    cluster_by: Annotated[list[str], Field(max_length=4)] = Field(
        default=[],
        description="The columns by which the table is clustered (liquid clustering), instead of partitioned. Every "
        "source must have them. They take effect when the table is created, by Spark.",
        examples=[["day", "id"]],
    )
    table_properties: dict[str, str] = Field(
        default={},
        description="Properties of the table, such as delta.deletedFileRetentionDuration. They take effect when the "
        "table is created.",
        examples=[{"delta.deletedFileRetentionDuration": "interval 30 days"}],
    )
    constraints: dict[Name, str] = Field(
        default={},
        description="CHECK constraints of the table, by name: conditions in Spark SQL that are true for each row. A "
        "record that violates one is dead-lettered.",
        examples=[{"positive": "value >= 0"}],
    )
    target_file_bytes: Bytes = Field(
        default=128 << 20,
        description="Size at which the job starts a new data file in a partition of the table.",
    )
    engine: Literal["auto", "local", "spark"] = Field(
        default="auto",
        description="What `blizzard run` ingests with: `local`, processes of this machine, without Java; `spark`; or "
        "`auto`, local with Spark for what only Spark can do. On EMR Serverless it is always Spark.",
    )
    linger_secs: Secs = Field(
        default=0,
        description="How many seconds a run with `--once` keeps looking for new files after its backlog is gone. Under "
        "steady traffic, new files then do not wait for the next start.",
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
