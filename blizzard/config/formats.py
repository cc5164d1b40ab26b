"""The file formats that a source may name. Adding a format to the configuration adds one entry here."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from blizzard.config.schema_limits import NO_LIMITS, FormatLimits


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
    options: tuple[str, ...] = ()
    """The fields of `Source` that only some formats have and this one does: `Source.format_options`."""

    @property
    def requires_schema(self) -> bool:
        return self.fixed_schema is None


_JSON_LIMITS = FormatLimits(
    types={
        "CHAR": "Spark cannot read CHAR from JSON; use STRING",
        "CHARACTER": "Spark cannot read CHAR from JSON; use STRING",
        "VARCHAR": "Spark cannot read VARCHAR from JSON; use STRING",
        "VARIANT": "VARIANT is not supported; use STRING, which keeps a JSON value as its text",
    },
    map_keys="keys in JSON are text",
)

FILE_FORMATS: Mapping[str, FileFormat] = {
    "ndjson": FileFormat("one JSON object a line", ".ndjson", json.dumps, limits=_JSON_LIMITS),
    "text": FileFormat(
        "each line as it is, in one column `value STRING`",
        ".txt",
        lambda record: "the first line",
        fixed_schema="value STRING",
    ),
}
"""By the name that `format` takes, in the order in which error texts list them."""

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FILE_FORMATS)]


def format_help() -> str:
    """The description of the field `format`."""
    return " ".join(f"{name}: {file_format.description}." for name, file_format in FILE_FORMATS.items())


def schema_help() -> str:
    """The description of the field `schema`."""
    required = ", ".join(name for name, file_format in FILE_FORMATS.items() if file_format.requires_schema)
    fixed = [name for name, file_format in FILE_FORMATS.items() if not file_format.requires_schema]
    has_its = "has its" if len(fixed) == 1 else "have their"
    return f"The columns of a record in Spark's DDL. Needed for {required}; {' and '.join(fixed)} {has_its} own."
