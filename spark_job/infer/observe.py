"""Reads the beginning of some files as a source says, and finds the types of what they hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from blizzard.config.compressions import compression_of
from blizzard.config.ddl import Column, Struct
from blizzard.errors import NotFound
from blizzard.infer.observed import Observed
from blizzard.infer.text import TextForms, text_type
from blizzard.infer.types import STRING
from blizzard.storage.base import ObjectInfo, ObjectStore
from spark_job.formats.header import repeated
from spark_job.formats.marks import FIRST_BYTES, likeness
from spark_job.formats.protocol import FileFault
from spark_job.formats.read_rules import ReadRules
from spark_job.infer.csv_sample import csv_parts
from spark_job.infer.heads import Head, read_heads, unreadable
from spark_job.infer.json_values import document_values, line_values, records_at
from spark_job.infer.longer_heads import LongerHeads, lacks_records, longest
from spark_job.infer.typed_sample import TypedPart, avro_part, orc_part, parquet_part
from spark_job.infer.xml_sample import observe_xml

_BY_POSITION = "name its columns by position in `csv: header`, with `skip_rows: 1`"


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read. `options`: of the format, as JSON values with every default filled in."""

    format: str
    options: Mapping[str, Any]
    compression: str = "auto"


@dataclass(slots=True)
class Sample:
    """`files`: how many were looked into. `faults`: why others could not be read, by path. `without`: fields that no
    column can be for, with their types. `cut_bytes`: how much was read of a file without the end of a record, if no
    record was seen for this reason."""

    observed: Observed = field(default_factory=Observed)
    files: int = 0
    faults: dict[str, str] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)
    cut_bytes: int = 0

    def join(self, other: "Sample") -> None:
        self.observed.join(other.observed)
        self.files += other.files
        self.faults |= other.faults
        self.without |= other.without
        self.cut_bytes = max(self.cut_bytes, other.cut_bytes)


def observe_files(store: ObjectStore, files: Sequence[ObjectInfo], reading: Reading, max_bytes: int) -> Sample:
    """`max_bytes`: decompressed, of all files together; up to `MORE_BYTES` more if no record ends within them. Raises
    what storage raises."""
    rules = ReadRules.of(reading.format, reading.options)
    sample, heads = Sample(), dict[int | None, list[Head]]()
    longer, each = LongerHeads(store), max(1, max_bytes // max(1, len(files)))
    for info in files:
        at = None if rules is None else rules.index(info.key)
        if rules is not None and at is None:
            continue
        compression = reading.compression if rules is None or at is None else rules.rules[at].compression
        try:
            heads.setdefault(at, []).extend(read_heads(store, info, each, compression_of(info.key, compression)))
        except FileFault as fault:
            sample.faults[info.key] = unreadable(fault)
        except NotFound:
            continue
    for at, some in heads.items():
        rule = reading if rules is None or at is None else rules.rules[at]
        sample.join(_observe_longer(store, some, Reading(rule.format, rule.options, rule.compression), longer))
    return sample


def _observe_longer(store: ObjectStore, heads: Sequence[Head], reading: Reading, longer: LongerHeads) -> Sample:
    """With more of a few files if the heads hold no record."""
    found = observe_heads(store, heads, reading)
    if found.faults or not lacks_records(found.observed, heads, reading.format):
        return found
    read = longest(heads)
    for more in longer.of(heads):
        again = observe_heads(store, more, reading)
        if again.observed.records:
            return again
        read = max(read, longest(more))
    found.cut_bytes = read
    return found


def observe_heads(store: ObjectStore, heads: Sequence[Head], reading: Reading) -> Sample:
    """Of files that were read already."""
    match reading.format:
        case "ndjson" | "json":
            return _json(heads, reading)
        case "csv":
            return _csv(heads, reading.options)
        case "xml":
            return _each(heads, partial(_xml, reading.options))
        case "parquet" | "avro" | "orc":
            return _typed(store, heads, reading.format)
    return Sample(files=_files(heads))


def _files(heads: Sequence[Head]) -> int:
    """A zip has several heads."""
    return len({head.info.key for head in heads})


def forms(options: Mapping[str, Any]) -> TextForms:
    return TextForms(options["decimal_point"], options["date_format"], options["timestamp_format"])


def _json(heads: Sequence[Head], reading: Reading) -> Sample:
    sample = Sample(files=_files(heads))
    names = (reading.options.get("records") or "").split(".") if reading.options.get("records") else []
    for head in heads:
        read = line_values if reading.format == "ndjson" else document_values
        found = read(head.data, is_whole=head.is_whole)
        sample.observed.broken += found.broken
        of_cut = found.cut if names or isinstance(found.cut, list) else []
        for value in [*found.values, *([of_cut] if reading.format == "json" else [])]:
            of_file = records_at(value, names) if names else value if isinstance(value, list) else [value]
            for record in of_file if reading.format == "json" else [value]:
                if isinstance(record, dict):
                    sample.observed.add_record(record)
                else:
                    sample.observed.broken += 1
    return sample


def _csv(heads: Sequence[Head], options: Mapping[str, Any]) -> Sample:
    """A file whose header has a name twice is not read."""
    sample, kind_of = Sample(files=_files(heads)), partial(text_type, forms=forms(options))
    for head in heads:
        for part in csv_parts([head], options):
            if options["header"] is True and (why := repeated(part.names)) is not None:
                sample.faults[head.info.key] = f"{why}; {_BY_POSITION}"
                continue
            sample.observed.add_text_columns(part.columns, part.count, kind_of)
            sample.observed.broken += part.broken
    return sample


def _each(heads: Sequence[Head], read: Any) -> Sample:
    sample = Sample()
    try:
        sample.observed = read(heads)
        sample.files = _files(heads)
    except FileFault:
        good = list[Head]()
        for head in heads:
            try:
                read([head])
                good.append(head)
            except FileFault as fault:
                sample.faults[head.info.key] = unreadable(fault)
        sample.observed, sample.files = read(good), _files(good)
    return sample


def _xml(options: Mapping[str, Any], heads: Sequence[Head]) -> Observed:
    kind_of = partial(text_type, forms=forms(options))
    return observe_xml(heads, options["row_tag"], kind_of, ignore_namespace=options["ignore_namespace"])


def _typed(store: ObjectStore, heads: Sequence[Head], name: str) -> Sample:
    sample = Sample()
    for head in heads:
        try:
            part = _part(store, head, name)
        except FileFault as fault:
            what = likeness(head.data[:FIRST_BYTES], (name,), "none")
            sample.faults[head.info.key] = unreadable(fault) + ("" if what is None else f"; {what}")
            continue
        sample.files += 1
        sample.without |= part.without
        sample.observed.add_schema(part.schema)
        for row in part.rows:
            sample.observed.add_typed_record(row, part.schema)
    _join_others(sample)
    return sample


def _join_others(sample: Sample) -> None:
    """A field for which some files have a type that only STRING holds is STRING, if it is a column for others."""
    found = sample.observed.found
    for column in () if found is None else found.columns:
        if sample.without.pop(column.name, None) is not None:
            sample.observed.add_schema(Struct((Column(column.name, STRING),)))


def _part(store: ObjectStore, head: Head, name: str) -> TypedPart:
    if name == "avro":
        return avro_part(head)
    return parquet_part(store, head) if name == "parquet" else orc_part(store, head)
