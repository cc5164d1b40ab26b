"""The published configuration as the functions read it: JSON with every default filled in, read without pydantic.

`blizzard.config.publish` writes it. Only the fields that functions need are read; the job reads the same object with
the full loader.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from blizzard.config import source_names
from blizzard.errors import ConfigError
from blizzard.storage import json_fields as fields


@dataclass(frozen=True, slots=True)
class _Published:
    """What sources of any kind have."""

    pipeline: str
    name: str
    table_uri: str

    @property
    def id(self) -> str:
        return source_names.source_id(self.pipeline, self.name)

    @property
    def state_prefix(self) -> str:
        """Relative to the table's URI, without a `/` at its end."""
        return source_names.state_prefix(self.pipeline, self.name)


@dataclass(frozen=True, slots=True)
class PublishedSource(_Published):
    """The part of a source that functions need. Each field has the meaning of the configuration's field of that
    name."""

    uri: str
    pattern: str
    prefix_template: str | None
    """None: the source has no `partition_filter`, so none of its folders ever closes."""
    lookback: int
    settle_delay_secs: float
    sweep_interval_secs: float
    late_interval_secs: float
    late_overlap_secs: float
    unordered_requests: int
    quiet_secs: float
    inventory: str | None
    interval_files: int
    interval_bytes: int
    max_attempts: int
    max_backoff_secs: float
    on_overwrite: str


@dataclass(frozen=True, slots=True)
class PublishedTopics(_Published):
    """The part of a source of topics that functions need, as of PublishedSource."""

    run_interval_secs: float
    max_attempts: int
    max_backoff_secs: float


@dataclass(frozen=True, slots=True)
class PublishedPipeline:
    """One Delta table and its sources, in the order of the file: `sources` are those of files."""

    name: str
    table_uri: str
    linger_secs: float
    sources: tuple[PublishedSource, ...]
    topics: tuple[PublishedTopics, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishedConfig:
    """Pipelines by name, in the order of the file."""

    pipelines: Mapping[str, PublishedPipeline]

    def sources(self) -> Iterator[PublishedSource]:
        """Those of files."""
        return (source for pipeline in self.pipelines.values() for source in pipeline.sources)

    def topics(self) -> Iterator[PublishedTopics]:
        return (source for pipeline in self.pipelines.values() for source in pipeline.topics)


def read_published(text: str, name: str) -> PublishedConfig:
    """`name` is for messages. Raises ConfigError when the text is not a published configuration."""
    try:
        pipelines = fields.mapping(fields.mapping(json.loads(text))["pipelines"])
        return PublishedConfig({key: _pipeline(key, fields.mapping(value)) for key, value in pipelines.items()})
    except fields.MALFORMED as error:
        found = f"the key {error} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
        expected = "expected a published configuration, that is JSON with every default filled in"
        raise ConfigError(
            [f"{name}: {expected}, found something else ({found:.200}); run `make publish` and use the key it prints"]
        ) from error


def _pipeline(name: str, value: dict[str, Any]) -> PublishedPipeline:
    table_uri = _text(value["table_uri"])
    sources = {key: fields.mapping(source) for key, source in fields.mapping(value["sources"]).items()}
    of_topics = {key for key, source in sources.items() if source.get("kafka") is not None}
    return PublishedPipeline(
        name=name,
        table_uri=table_uri,
        linger_secs=fields.number(value["linger_secs"]),
        sources=tuple(_source(name, key, table_uri, one) for key, one in sources.items() if key not in of_topics),
        topics=tuple(_topics(name, key, table_uri, one) for key, one in sources.items() if key in of_topics),
    )


def _topics(pipeline: str, name: str, table_uri: str, value: dict[str, Any]) -> PublishedTopics:
    retries = fields.mapping(value["retries"])
    return PublishedTopics(
        pipeline=pipeline,
        name=name,
        table_uri=table_uri,
        run_interval_secs=fields.number(fields.mapping(value["kafka"])["run_interval_secs"]),
        max_attempts=fields.natural(retries["max_attempts"]),
        max_backoff_secs=fields.number(retries["max_backoff_secs"]),
    )


def _source(pipeline: str, name: str, table_uri: str, value: dict[str, Any]) -> PublishedSource:
    filtered = value["partition_filter"]
    sweep, checkpoint, retries = (fields.mapping(value[key]) for key in ("sweep", "checkpoint", "retries"))
    return PublishedSource(
        pipeline=pipeline,
        name=name,
        uri=_text(value["uri"]),
        table_uri=table_uri,
        pattern=_text(value["pattern"]),
        prefix_template=None if filtered is None else _text(fields.mapping(filtered)["prefix_template"]),
        lookback=1 if filtered is None else fields.natural(filtered["lookback"]),
        settle_delay_secs=fields.number(value["settle_delay_secs"]),
        sweep_interval_secs=fields.number(sweep["interval_secs"]),
        late_interval_secs=fields.number(sweep["late_interval_secs"]),
        late_overlap_secs=fields.number(sweep["late_overlap_secs"]),
        unordered_requests=fields.natural(sweep["unordered_requests"]),
        quiet_secs=fields.number(sweep["quiet_secs"]),
        inventory=None if value["inventory"] is None else _text(value["inventory"]),
        interval_files=fields.natural(checkpoint["interval_files"]),
        interval_bytes=fields.natural(checkpoint["interval_bytes"]),
        max_attempts=fields.natural(retries["max_attempts"]),
        max_backoff_secs=fields.number(retries["max_backoff_secs"]),
        on_overwrite=fields.text(value["on_overwrite"]),
    )


def _text(value: object) -> str:
    """The published form escapes `${` as `$${`, like the configuration itself."""
    text = fields.text(value)
    plain = text.replace("$${", "")
    if "${" in plain:
        raise ValueError(f"the variable in {text!r:.80} is not resolved")
    return text.replace("$${", "${")
