"""The file formats that a source may name. Adding a format to the configuration adds one entry here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How a format is configured. How it is read is the matter of the job's registry of formats."""

    description: str
    """What a file holds, for the JSON Schema."""
    fixed_schema: str | None = None
    """The DDL that every source of the format has. None: each source has to write its own `schema`."""

    @property
    def requires_schema(self) -> bool:
        return self.fixed_schema is None


FILE_FORMATS: Mapping[str, FileFormat] = {
    "ndjson": FileFormat("one JSON object a line"),
    "text": FileFormat("each line as it is, in one column `value STRING`", fixed_schema="value STRING"),
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
    fixed = " and ".join(name for name, file_format in FILE_FORMATS.items() if not file_format.requires_schema)
    return f"The columns of a record in Spark's DDL. Needed for {required}; {fixed} has its own."
