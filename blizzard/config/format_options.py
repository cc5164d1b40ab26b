"""The options of single formats: each is a block of a source, named like the format."""

import codecs
import re
from datetime import UTC, datetime
from typing import Annotated, Literal, Self
from zoneinfo import available_timezones

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from blizzard.config.section import Section, no_bool

_NO_CHARACTER_SETS = {
    "utf-7",
    "unicode-escape",
    "unicode_escape",
    "raw-unicode-escape",
    "raw_unicode_escape",
    "undefined",
    "idna",
    "punycode",
}
"""Encodings of Python that are escapes rather than character sets."""
_SOME_TIME = datetime(2026, 11, 21, 22, 33, 44, 555_555, tzinfo=UTC)
_DIRECTIVE = re.compile(r"%[A-Za-z]")


def _one_character(text: str) -> str:
    if len(text) != 1 or not text.isascii() or text in "\r\n\0":
        raise ValueError(f'found {text!r:.40}, expected one ASCII character; a tab is written as "\\t"')
    return text


def _encoding(name: str) -> str:
    try:
        found = codecs.lookup(name)
    except LookupError:
        found = None
    if found is None or not found._is_text_encoding or found.name in _NO_CHARACTER_SETS:
        raise ValueError(f"found {name!r:.40}, expected an encoding such as utf-8, utf-16, latin-1 or cp1252")
    return name


def _strptime_format(text: str) -> str:
    if "%Z" in text:
        raise ValueError(f"found {text!r:.80} with %Z, whose names are ambiguous; expected %z, or `timezone`")
    try:
        read = datetime.strptime(_SOME_TIME.strftime(text), text)  # noqa: DTZ007 - only whether it can be read
    except (ValueError, re.error) as error:
        raise ValueError(f"found {text!r:.80}, which strptime cannot read: {error}") from error
    if _DIRECTIVE.search(text) is None:
        raise ValueError(f"found {text!r:.80}, expected a format with directives of strptime, such as %d.%m.%Y")
    if read.year != _SOME_TIME.year:
        raise ValueError(f"found {text!r:.80}, which has no year, so all values would be in 1900; expected %Y or %y")
    return text


def _names_or_bool(value: object) -> object:
    names = value if isinstance(value, list) else []
    is_word = isinstance(value, str) and value.lower() in ("true", "false", "yes", "no", "on", "off")
    if not (isinstance(value, bool | list) or is_word) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"found {value!r:.80}, expected true, false, or a list of names, numbers in quotes")
    return value


def _zone(name: str) -> str:
    known = available_timezones()
    if known and name not in known:
        raise ValueError(f"found {name!r:.80}, expected a time zone such as UTC or Europe/Berlin")
    return name


Character = Annotated[str, AfterValidator(_one_character)]
StrptimeFormat = Annotated[str, AfterValidator(_strptime_format)]
TimeZone = Annotated[str, AfterValidator(_zone)]


class _TextValues(Section):
    """How values are written in formats that hold text."""

    decimal_point: Literal[".", ","] = Field(
        default=".", description="The mark before the digits of a fraction, in DOUBLE, FLOAT and DECIMAL."
    )
    date_format: StrptimeFormat | None = Field(
        default=None,
        description="The form of a DATE, in directives of strptime. Without it: ISO 8601.",
        examples=["%d.%m.%Y"],
    )
    timestamp_format: StrptimeFormat | None = Field(
        default=None,
        description="The form of a TIMESTAMP and TIMESTAMP_NTZ, in directives of strptime. Without it: ISO 8601.",
        examples=["%d.%m.%Y %H:%M:%S"],
    )
    timezone: TimeZone = Field(
        default="UTC",
        description="The time zone of a TIMESTAMP that names none.",
        examples=["Europe/Berlin"],
    )


class CsvOptions(_TextValues):
    """How the files of a source with `format: csv` are written."""

    delimiter: Character = Field(default=",", description="What divides two fields.")
    quote: Character | None = Field(
        default='"', description="What stands around a field that holds delimiters or line ends. null: nothing does."
    )
    escape: Character | None = Field(
        default=None,
        description="What stands, within quotes, before a quote or before itself. A quote within quotes may also be "
        "doubled.",
    )
    comment: Character | None = Field(default=None, description="A line that begins with it is no record.")
    header: Annotated[bool | list[str], BeforeValidator(_names_or_bool)] = Field(
        default=True,
        description="true: the first record names the columns, in any order. false: the columns are those of "
        "`schema`, in order. A list: the names of the columns, in order, of files without a header.",
    )
    null_values: list[str] = Field(default=[""], description="What is null if it is not quoted.")
    skip_rows: Annotated[int, Field(ge=0), BeforeValidator(no_bool)] = Field(
        default=0, description="How many lines at the start of a file are no records."
    )
    encoding: Annotated[str, AfterValidator(_encoding)] = Field(
        default="utf-8", description="The encoding of the files.", examples=["utf-16", "latin-1", "cp1252"]
    )

    @model_validator(mode="after")
    def _different(self) -> Self:
        if self.comment is not None and self.comment in (self.quote, self.escape):
            raise ValueError(f"comment {self.comment!r} is also the quote or the escape; choose another one")
        if self.quote is None and self.escape is not None:
            raise ValueError("escape has no effect with `quote: null`; remove it, or name the quote")
        if self.header == []:
            raise ValueError("header has no name; give the names of the columns, or true or false")
        used = {"quote": self.quote, "escape": self.escape, "comment": self.comment}
        for name, character in used.items():
            if character == self.delimiter:
                raise ValueError(f"{name} {character!r} is also the delimiter; choose another one")
        if isinstance(self.header, list) and (twice := sorted({n for n in self.header if self.header.count(n) > 1})):
            raise ValueError(f"header has the name {twice[0]} twice; name each column once")
        return self


class JsonOptions(Section):
    """Where the files of a source with `format: json` hold their records."""

    records: Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)*$")] | None = Field(
        default=None,
        description="The names that lead to the array of records, divided by dots. Without it: the file is an array, "
        "or objects that follow each other.",
        examples=["response.items"],
    )


class TextOptions(Section):
    """What a record of a source with `format: text` is."""

    whole: bool = Field(default=False, description="true: each file is one record. false: each line is one.")


class XmlOptions(_TextValues):
    """Where the files of a source with `format: xml` hold their records."""

    row_tag: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="The name of the elements that are records. Needed for xml.", examples=["order"]
    )
    ignore_namespace: bool = Field(default=False, description="Whether names are compared without their prefixes.")


class EnvelopeOptions(Section):
    """What a source with `format: envelope` has of a message."""

    payload: Literal["binary", "string"] = Field(
        default="binary",
        description="The type of the column message_payload. string: text in UTF-8; a message with other bytes is "
        "dead-lettered.",
    )
