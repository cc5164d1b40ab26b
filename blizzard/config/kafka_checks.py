"""Checks of a source: whether it is of files or of topics, and that it has no options of the other kind."""

from collections.abc import Iterable

from blizzard.config.formats import AVRO, ENVELOPE, MESSAGE_FORMATS
from blizzard.config.model import Source
from blizzard.config.problems import Path, Problems
from blizzard.config.section import Section
from blizzard.config.source_sections import Checkpoint

URI_MISSING = f"is missing; add it: {Source.model_fields['uri'].description}"
_OF_FILES = (
    "pattern",
    "compression",
    "partition_columns",
    "partition_filter",
    "settle_delay_secs",
    "on_overwrite",
    "sweep",
    "inventory",
    "text_options",
)
"""What means nothing for topics."""


def check_kind(source: Source, path: Path, problems: Problems) -> None:
    """`path`: of the source."""
    if source.kafka is None:
        if not problems.has((*path, "kafka")):
            _check_files(source, path, problems)
    else:
        _check_topics(source, path, problems)


def _check_files(source: Source, path: Path, problems: Problems) -> None:
    if not source.uri and not problems.has((*path, "uri")):
        problems.add((*path, "uri"), URI_MISSING)
    if source.format == ENVELOPE:
        problems.add((*path, "format"), "envelope is for the messages of a topic, and the source has no block `kafka`")
    if source.envelope_options is not None:
        problems.add((*path, ENVELOPE), "has no effect without `format: envelope`; remove it")
    if source.format == AVRO and source.avro_options is not None:
        problems.add((*path, AVRO), "has no effect for files, which hold their own schemas; remove it")
    if _is_set(source.checkpoint, "interval_records"):
        text = "has no effect for files; remove it: interval_files and interval_bytes limit a batch"
        problems.add((*path, "checkpoint", "interval_records"), text)


def _check_topics(source: Source, path: Path, problems: Problems) -> None:
    if source.uri:
        problems.add((*path, "uri"), "found a uri and the block `kafka`; a source has one of them: remove the other")
    if source.format not in MESSAGE_FORMATS and not problems.has((*path, "format")):
        expected = ", ".join(MESSAGE_FORMATS)
        problems.add((*path, "format"), f"found {source.format}; a message of a topic is one of {expected}; change it")
    if source.envelope_options is not None and source.format != ENVELOPE:
        problems.add((*path, ENVELOPE), f"has no effect with `format: {source.format}`; remove it")
    if source.format == AVRO and source.avro_options is None and not problems.has((*path, AVRO)):
        text = "is missing; add the schemas of the messages, such as: avro: {registry: {url: 'https://registry:8081'}}"
        problems.add((*path, AVRO), text)
    for name in _OF_FILES:
        if _is_set(source, name):
            shown = Source.model_fields[name].alias or name
            problems.add((*path, shown), "has no effect for topics; remove it")
    if _is_set(source.checkpoint, "interval_files"):
        default = Checkpoint.model_fields["interval_records"].default
        text = f"has no effect for topics; remove it, or replace it by interval_records (default: {default:,})"
        problems.add((*path, "checkpoint", "interval_files"), text)
    if _is_set(source.limits, "max_file_bytes"):
        text = "has no effect for topics; remove it: max_record_bytes limits a message"
        problems.add((*path, "limits", "max_file_bytes"), text)


def check_taken_over_once(sources: Iterable[tuple[Source, Path]], problems: Problems) -> None:
    """`sources`: those of one table, with their paths. The offsets of an app id are those of one topic."""
    known: dict[str, Source] = {}
    for source, path in sources:
        app_id = None if source.kafka is None else source.kafka.app_id_to_take_over
        if app_id is None or problems.has((*path, "kafka")):
            continue
        other = known.setdefault(app_id, source)
        if other is not source:
            text = (
                f"found {app_id}, which source {other.id} of the same table takes over; an app id of "
                "kafka-delta-ingest has the offsets of one topic: remove take_over from one of them (a source that has "
                "begun no longer needs it)"
            )
            problems.add((*path, "kafka", "take_over"), text)


def _is_set(section: Section, name: str) -> bool:
    """To another value than its default: the published form of a configuration has all of them."""
    return bool(getattr(section, name) != type(section).model_fields[name].default)
