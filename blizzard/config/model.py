"""The fields of `pipelines.yaml`. Their descriptions are also in the JSON Schema, for editors."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StringConstraints,
    ValidationInfo,
)

from blizzard.config import source_names, uri
from blizzard.config.avro_options import AvroMessageOptions
from blizzard.config.compressions import AUTO, CompressionName, auto_help
from blizzard.config.format_options import CsvOptions, EnvelopeOptions, JsonOptions, TextOptions, XmlOptions
from blizzard.config.formats import (
    AVRO,
    ENVELOPE,
    FILE_FORMATS,
    FORMATS,
    INFER,
    MIXED,
    FormatName,
    SourceFormatName,
    envelope_schema,
    format_help,
    schema_help,
)
from blizzard.config.kafka_options import LATEST, KafkaOptions
from blizzard.config.schema_rule_options import SchemaRuleOptions
from blizzard.config.schema_rules import RESCUED
from blizzard.config.section import Section
from blizzard.config.source_sections import Bytes, Checkpoint, Limits, PartitionFilter, Retries, Secs, Sweep
from blizzard.paths.partition import PartitionType
from blizzard.paths.pattern import Pattern

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"


def _source_uri(text: str, info: ValidationInfo) -> str:
    return uri.source_uri(text, _folder(info)) if text else ""  # as a source of topics has it when it is published


def _table_uri(text: str, info: ValidationInfo) -> str:
    return uri.table_uri(text, _folder(info))


def _inventory_uri(text: str) -> str:
    return uri.inventory_uri(text)


def _folder(info: ValidationInfo) -> str | None:
    return info.context.get("folder") if isinstance(info.context, dict) else None


def _pattern(text: str) -> str:
    Pattern(text)
    return text


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


Name = Annotated[str, StringConstraints(pattern=NAME)]


class HowToRead(Section):
    """What files hold: their format, with its options, and their compression."""

    format: FormatName = Field(default="ndjson", description=format_help(FILE_FORMATS))
    compression: CompressionName = Field(default=AUTO, description=auto_help())
    csv_options: CsvOptions | None = Field(default=None, alias="csv", description="The options of `format: csv`.")
    json_options: JsonOptions | None = Field(default=None, alias="json", description="The options of `format: json`.")
    text_options: TextOptions | None = Field(default=None, alias="text", description="The options of `format: text`.")
    xml_options: XmlOptions | None = Field(default=None, alias="xml", description="The options of `format: xml`.")

    @property
    def format_options(self) -> dict[str, Any]:
        """The block of the format, as JSON values with every default filled in."""
        options = FORMATS[self.format].options
        if options is None:
            return {}
        block = getattr(self, f"{self.format}_options") or options()
        return dict(block.model_dump(mode="json"))

    @property
    def file_compression(self) -> str:
        """As `compression_of` takes it."""
        is_compressed = FORMATS[self.format].may_be_compressed
        return self.compression if is_compressed or self.compression != AUTO else "none"


class ReadRule(HowToRead):
    """Which files of a source with `format: mixed` are read in which way."""

    pattern: Annotated[str, AfterValidator(_pattern)] = Field(
        description="Which of the source's files the rule is for, as `pattern` of the source. The first rule that "
        "matches a file reads it."
    )


class Source(SchemaRuleOptions, HowToRead):
    """A folder or prefix where files land, or topics, and how to read them."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["uri"]}, {"required": ["kafka"]}]})

    uri: Annotated[str, AfterValidator(_source_uri)] = Field(
        default_factory=str,
        description="The folder or prefix: s3://bucket/prefix/, file:///folder/ or a path, which may be relative to "
        "the configuration's folder. It must not contain another source or a table.",
        examples=["s3://landing/raw-events/"],
    )
    kafka: KafkaOptions | None = Field(default=None, description="The topics that are read, instead of a `uri`.")
    format: SourceFormatName = Field(default="ndjson", description=format_help(FORMATS))
    envelope_options: EnvelopeOptions | None = Field(
        default=None, alias="envelope", description="The options of `format: envelope`."
    )
    avro_options: AvroMessageOptions | None = Field(
        default=None,
        alias="avro",
        description="The schemas of the messages of a topic with `format: avro`. Files hold their own.",
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
    def begins_with_rows(self) -> bool:
        """Of topics: whether a table that there is not is made by the commit of the first rows, since its columns are
        not known before. Until then each run begins anew: with the first messages, or with those since a time. At
        `latest` it would pass messages by, so that where it begins is committed first, as for any other source."""
        return self.infers_schema and self.kafka is not None and self.kafka.start != LATEST

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
        if self.format == ENVELOPE:
            return envelope_schema(self.format_options["payload"])
        fixed = {FORMATS[name].fixed_schema for name in self.formats}
        written = "" if self.infers_schema else self.schema_ddl
        return (fixed.pop() if len(fixed) == 1 else None) or written or ""

    @property
    def formats(self) -> tuple[str, ...]:
        """Of its files: those of its rules, if it has rules."""
        return tuple(rule.format for rule in self.mixed_options or ()) if self.format == MIXED else (self.format,)

    @property
    def format_options(self) -> dict[str, Any]:
        """As JSON values with every default filled in: the block of the format, or the rules of `mixed`. They may have
        a password, so they are never logged."""
        if self.format == AVRO and self.avro_options is not None:
            return self.avro_options.for_tasks()
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

    @property
    def source_ids(self) -> frozenset[str]:
        return frozenset(source.id for source in self.sources.values())


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

    def sources_of(self, table_uri: str) -> frozenset[str]:
        """The ids of all sources that this table is configured for."""
        return frozenset(source.id for pipeline, source in self.sources() if pipeline.table_uri == table_uri)

    def file_sources(self) -> Iterator[tuple[Pipeline, Source]]:
        """Those whose files have a `uri`."""
        return ((pipeline, source) for pipeline, source in self.sources() if source.kafka is None)
