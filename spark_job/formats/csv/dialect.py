"""How the fields of a CSV file are written, and the patterns by which its lines are put together to records."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Dialect:
    """The options of `csv` that say where fields and records end."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    comment: str | None = None
    header: bool | Sequence[str] = True
    null_values: Sequence[str] = ("",)
    skip_rows: int = 0

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "Dialect":
        dialect = cls(**{name: options[name] for name in cls.__dataclass_fields__ if name in options})
        # A quote that is escaped by a quote is a doubled one.
        return replace(dialect, escape=None) if dialect.escape == dialect.quote else dialect

    @cached_property
    def quote_byte(self) -> bytes:
        """Empty if nothing is quoted."""
        return (self.quote or "").encode()

    def are_whole(self, text: bytes) -> bool:
        """Whether each line of the text is certainly a complete record. False if that takes a closer look."""
        if not self.quote_byte or self.quote_byte not in text:
            return True
        if self.escape is not None and self.escape.encode() in text:
            return False
        return self._whole_lines.fullmatch(text) is not None

    @cached_property
    def _whole_lines(self) -> "re.Pattern[bytes]":
        """Text in which each quoted field begins and ends within a line, at a field's edges. Nothing is escaped."""
        quote, other_than_edge = re.escape(self.quote_byte), b"[^%b\n]" % re.escape(self.delimiter.encode())
        inside = b"[^%b\n]*+(?:%b%b[^%b\n]*+)*+" % (quote, quote, quote, quote)
        quoted = b"(?<!%b)%b%b%b(?!%b)" % (other_than_edge, quote, inside, quote, other_than_edge)
        return _compiled(b"(?:[^%b]*+%b)*+[^%b]*+" % (quote, quoted, quote))

    def may_span_lines(self, text: bytes) -> bool:
        """Whether a field of the text may hold a line end."""
        marks = [mark.encode() for mark in (self.quote, self.escape) if mark]
        return any(mark in text for mark in marks)

    @cached_property
    def _field(self) -> bytes:
        delimiter, plain = re.escape(self.delimiter.encode()), re.escape(self.quote_byte)
        return b"(?:%b%b%b|(?!%b)[^%b]*+)" % (plain, self._inside, plain, plain, delimiter)

    @cached_property
    def _inside(self) -> bytes:
        """What a quoted field may hold, up to its closing quote."""
        quote = re.escape(self.quote_byte)
        if self.escape is None:
            return b"(?:[^%b]|%b%b)*+" % (quote, quote, quote)
        escape = re.escape(self.escape.encode())
        return b"(?:[^%b%b]|%b(?:.|$)|%b%b)*+" % (quote, escape, escape, quote, quote)

    @cached_property
    def quoted(self) -> "re.Pattern[bytes]":
        """A quoted field."""
        if self.quote is None:
            return re.compile(b"(?!)")  # matches nothing
        delimiter, quote = re.escape(self.delimiter.encode()), re.escape(self.quote_byte)
        return _compiled(b"(?:(?<=%b)|^)%b%b%b" % (delimiter, quote, self._inside, quote))

    def without_escapes(self, record: bytes) -> bytes:
        """The record with its quotes within quotes doubled. As in Spark, the escape character escapes a quote and
        itself, within quotes alone; elsewhere it is part of the value."""
        if self.escape is None or self.quote is None or self.escape.encode() not in record:
            return record
        escape, quote = self.escape.encode(), self.quote_byte
        pair = _compiled(b"%b(%b|%b)" % (re.escape(escape), re.escape(escape), re.escape(quote)))
        return self.quoted.sub(
            lambda field: pair.sub(lambda found: quote * 2 if found[1] == quote else escape, field[0]), record
        )

    @cached_property
    def whole(self) -> "re.Pattern[bytes]":
        """A line that is a complete record."""
        return _compiled(b"%b(?:%b%b)*+" % (self._field, re.escape(self.delimiter.encode()), self._field))

    @cached_property
    def opening(self) -> "re.Pattern[bytes]":
        """A line whose last field is quoted and goes on in the next line."""
        delimiter, quote = re.escape(self.delimiter.encode()), re.escape(self.quote_byte)
        return _compiled(b"(?:%b%b)*%b%b" % (self._field, delimiter, quote, self._inside))

    @cached_property
    def going_on(self) -> "re.Pattern[bytes]":
        """A line within a quoted field that goes on in the next line."""
        return _compiled(self._inside)

    @cached_property
    def closing(self) -> "re.Pattern[bytes]":
        """A line that begins within a quoted field and ends the record."""
        delimiter, quote = re.escape(self.delimiter.encode()), re.escape(self.quote_byte)
        return _compiled(b"%b%b(?:%b%b)*+" % (self._inside, quote, delimiter, self._field))

    @cached_property
    def reopening(self) -> "re.Pattern[bytes]":
        """A line that begins within a quoted field, and ends within another one."""
        delimiter, quote = re.escape(self.delimiter.encode()), re.escape(self.quote_byte)
        more = b"%b%b(?:%b%b)*%b%b%b" % (self._inside, quote, delimiter, self._field, delimiter, quote, self._inside)
        return _compiled(more)


def _compiled(pattern: bytes) -> "re.Pattern[bytes]":
    return re.compile(pattern, re.DOTALL)
