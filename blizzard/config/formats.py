"""The file formats that a source may name. Adding a format to the configuration adds one entry here."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from blizzard.config.format_options import CsvOptions, EnvelopeOptions, JsonOptions, TextOptions, XmlOptions
from blizzard.config.schema_limits import NO_LIMITS, FormatLimits
from blizzard.config.section import Section


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How a format is configured. The job has its own registry of how formats are read."""

    description: str
    """What a file holds, for the JSON Schema."""
    extension: str
    """Of an uncompressed file, with its dot."""
    example: Callable[[Mapping[str, object]], str] | None
    """A line of a file that holds this record, by column. None: `echo` cannot make such a file."""
    fixed_schema: str | None = None
    """The DDL that every source of the format has. None: each source has to write its own `schema`."""
    limits: FormatLimits = NO_LIMITS
    """What a `schema` cannot have in this format. What Delta cannot store is refused for every format."""
    options: type[Section] | None = None
    """Of the block of a source that has the format's name, which is the field `{name}_options` of `Source`."""
    takes_schema_rules: bool = True
    """Whether a source may say what to do with data that is not as its schema says."""
    may_be_compressed: bool = True
    """Whether `compression: auto` goes by the extension."""

    @property
    def requires_schema(self) -> bool:
        return self.fixed_schema is None


def _no_types(of_format: str) -> dict[str, str]:
    """What none of the formats can hold."""
    return {
        **{name: f"Spark cannot read {name} from {of_format}; use STRING" for name in ("CHAR", "CHARACTER", "VARCHAR")},
        "VARIANT": "VARIANT is not supported; use STRING",
    }


_JSON_LIMITS = FormatLimits(
    types={
        **_no_types("JSON"),
        "CHARACTER": "Spark cannot read CHAR from JSON; use STRING",
        "VARIANT": "VARIANT is not supported; use STRING, which keeps a JSON value as its text",
    },
    map_keys="keys in JSON are text",
)
_XML_LIMITS = FormatLimits(
    types={**_no_types("XML"), "BINARY": "XML holds text; use STRING"}, map_keys="names in XML are text"
)
_CSV_LIMITS = FormatLimits(
    types={**_no_types("CSV"), "BINARY": "CSV holds text; use STRING"}, nested="a field of CSV is one value"
)
_COLUMN_LIMITS = FormatLimits(types=_no_types("these files"))

AVRO = "avro"
MIXED = "mixed"
INFER = "infer"
"""The `schema` of a source whose first batch decides on it."""

FILE_FORMATS: Mapping[str, FileFormat] = {
    "ndjson": FileFormat("one JSON object a line", ".ndjson", json.dumps, limits=_JSON_LIMITS),
    "json": FileFormat(
        "an array of JSON objects, or objects that follow each other",
        ".json",
        json.dumps,
        limits=_JSON_LIMITS,
        options=JsonOptions,
    ),
    "csv": FileFormat("values divided by a delimiter", ".csv", None, limits=_CSV_LIMITS, options=CsvOptions),
    "parquet": FileFormat("Parquet", ".parquet", None, limits=_COLUMN_LIMITS),
    AVRO: FileFormat("Avro's container files; of topics, records of Avro", ".avro", None, limits=_COLUMN_LIMITS),
    "orc": FileFormat("ORC", ".orc", None, limits=_COLUMN_LIMITS),
    "xml": FileFormat("one XML element a record", ".xml", None, limits=_XML_LIMITS, options=XmlOptions),
    "text": FileFormat(
        "each line, or each file, as it is, in one column `value STRING`",
        ".txt",
        lambda record: "the first line",
        fixed_schema="value STRING",
        takes_schema_rules=False,
        options=TextOptions,
    ),
    "binary": FileFormat(
        "each file as it is, in the columns `content BINARY, length BIGINT`",
        ".bin",
        None,
        fixed_schema="content BINARY, length BIGINT",
        takes_schema_rules=False,
        may_be_compressed=False,
    ),
    MIXED: FileFormat("files of several formats, by rules", "", None),
}
"""By the name that `format` takes, in the order in which error texts list them."""

ENVELOPE = "envelope"
_ENVELOPE_SCHEMA = (
    "stream_topic STRING, stream_partition INT, stream_offset BIGINT, message_timestamp TIMESTAMP, "
    "message_key BINARY, message_headers MAP<STRING, BINARY>, message_payload "
)
MESSAGE_FORMATS: Mapping[str, FileFormat] = {
    ENVELOPE: FileFormat(
        "each message of a topic as it is, with its place, time, key and headers",
        "",
        None,
        fixed_schema=f"{_ENVELOPE_SCHEMA}BINARY",
        options=EnvelopeOptions,
        takes_schema_rules=False,
        may_be_compressed=False,
    ),
    "ndjson": FILE_FORMATS["ndjson"],
    AVRO: FILE_FORMATS[AVRO],
    "text": FILE_FORMATS["text"],
}
"""What a message of a topic may hold: one record."""
FORMATS: Mapping[str, FileFormat] = {**FILE_FORMATS, ENVELOPE: MESSAGE_FORMATS[ENVELOPE]}


def envelope_schema(payload: str) -> str:
    """`payload`: the option of this name."""
    return f"{_ENVELOPE_SCHEMA}{payload.upper()}"


if TYPE_CHECKING:
    FormatName = str
    SourceFormatName = str
else:
    FormatName = Literal[tuple(FILE_FORMATS)]
    SourceFormatName = Literal[tuple(FORMATS)]


def format_help(formats: Mapping[str, FileFormat]) -> str:
    """The description of the field `format`."""
    return " ".join(f"{name}: {file_format.description}." for name, file_format in formats.items())


def schema_help() -> str:
    """The description of the field `schema`."""
    required = ", ".join(name for name, file_format in FILE_FORMATS.items() if file_format.requires_schema)
    *others, last = (name for name, file_format in FORMATS.items() if not file_format.requires_schema)
    fixed = f"{', '.join(others)} and {last}"
    inferred = f"{INFER}: those that the first batch shows; from then on those of the table"
    return f"The columns of a record in Spark's DDL. Needed for {required}; {fixed} have their own. {inferred}."
