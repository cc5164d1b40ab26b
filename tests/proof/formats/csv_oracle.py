"""CSV read by Python's own module, in its strict mode."""

import codecs
import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.types import StringType, StructField, StructType

from tests.proof.bad_input.values import Expected
from tests.proof.formats.verdicts import DEAD, Reading, Wanted, null, of_text, wanted

_CR = "\ue000"
"""Stands for a carriage return that ends no line, which Python's module takes for a line's end."""


class _Lines:
    """The lines of a text, with their ends. A blank line between two records is none."""

    def __init__(self, text: str) -> None:
        self._lines = iter(text.split("\n"))
        self.begins_record = True

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        for line in self._lines:
            bare = line.removesuffix("\r")
            if self.begins_record and not bare.strip(" "):
                continue
            self.begins_record = False
            return bare.replace("\r", _CR) + ("\r\n" if line.endswith("\r") else "\n")
        raise StopIteration


def _records(text: str, delimiter: str) -> Iterator[list[str] | None]:
    """The fields of each record; None for one that cannot be divided."""
    lines = _Lines(text)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        lines.begins_record = True
        try:
            yield next(reader)
        except csv.Error:
            yield None
        except StopIteration:
            return


def read_csv(body: bytes, schema: StructType, options: Mapping[str, Any]) -> Reading:
    try:
        text = body.decode(options["encoding"]).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        return Reading(None, f"{error}")
    if "\0" in text:
        return Reading(None, "NUL bytes")
    if _CR in text:
        return Reading(None, is_certain=False)
    records = [*_records(text, options["delimiter"])]
    if isinstance(options["header"], list):
        names = options["header"]
    else:
        if not records or records[0] is None or any(_CR in name for name in records[0]):
            return Reading(None, "no header", is_certain=not records or records[0] is None)
        names, records = records[0], records[1:]
    missing = [field.name for field in schema if not field.nullable and field.name not in names]
    given = [name for name in names if name]  # several columns may have none
    if len({*given}) < len(given) or missing or not {*names} & {*schema.names}:
        return Reading(None, f"the header {names!a:.200}")
    # Python's decoder of a whole text guesses the order of bytes.
    without_mark = options["encoding"] == "utf-16" and body[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return Reading([_wanted(fields, names, schema) for fields in records], may_be_dead=without_mark)


def _wanted(fields: Sequence[str] | None, names: Sequence[str], schema: StructType) -> Wanted:
    if fields is None or len(fields) != len(names):
        return DEAD
    texts = dict(zip(names, fields, strict=True))
    if any(_CR in text for text in fields):
        # In quotes it is part of the text; the module does not say which fields were quoted.
        each = {field.name: Expected(None, lambda found: True) for field in schema}
        return wanted(schema, each)
    return wanted(schema, {field.name: _expected(field, texts.get(field.name)) for field in schema})


def _expected(field: StructField, text: str | None) -> Expected:
    if text is None:
        return null(nullable=field.nullable)
    if text:
        return of_text(text, field.dataType)
    if isinstance(field.dataType, StringType):
        return Expected(True, lambda found: not found)  # null, or in quotes the empty text
    return Expected(None if field.nullable else False, lambda found: found is None)
