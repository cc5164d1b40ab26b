"""JSON divided into records by a walk over its characters, and each record read by Python's own module."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.types import StructType

from tests.proof.bad_input.records import Fate, record_of
from tests.proof.formats.verdicts import Reading, Wanted

_BLANKS = " \t\r\n"
_OPEN, _CLOSE = "{[", "}]"


class _Broken(Exception):
    """The whole text cannot be read."""


class _Text:
    """`at`: the place of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def peek(self) -> str:
        """The next character that is not blank; empty at the end."""
        while self.at < len(self.text) and self.text[self.at] in _BLANKS:
            self.at += 1
        return self.text[self.at : self.at + 1]

    def take(self, wanted: str) -> None:
        if self.peek() != wanted:
            raise _Broken(f"found {self.text[self.at : self.at + 20]!a} at {self.at}, expected {wanted!r}")
        self.at += 1

    def string(self) -> str:
        begin = self.at
        self.take('"')
        while (char := self.text[self.at : self.at + 1]) != '"':
            if not char:
                raise _Broken("it ends within a string")
            self.at += 2 if char == "\\" else 1
        self.at += 1
        return self.text[begin : self.at].strip(_BLANKS)

    def value(self) -> str:
        """The text of the next value, to the bracket that closes it."""
        begin, depth = self.at, 0
        if self.peek() not in (*_OPEN, '"'):
            while self.at < len(self.text) and self.text[self.at] not in ',:"' + _OPEN + _CLOSE:
                self.at += 1
            if value := self.text[begin : self.at].strip(_BLANKS):
                return value
            raise _Broken(f"no value at {begin}")
        begin = self.at
        while True:
            char = self.text[self.at : self.at + 1]
            if not char:
                raise _Broken("it ends within a value")
            if char == '"':
                self.string()
            else:
                depth += (char in _OPEN) - (char in _CLOSE)
                self.at += 2 if char == "\\" else 1
            if depth == 0:
                return self.text[begin : self.at]


def read_json(body: bytes, schema: StructType, options: Mapping[str, Any]) -> Reading:
    """The schema is the one of `bad_input`."""
    try:
        text = body.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        return Reading(None, f"{error}")
    if "\0" in text:
        return Reading(None, "NUL bytes")
    try:
        return Reading([_wanted(value) for value in _values(_Text(text), options["records"])])
    except _Broken as broken:
        return Reading(None, str(broken))


def _values(text: _Text, names: str | None) -> Iterator[str]:
    if names is None and text.peek() == "{":
        while first := text.peek():
            if first not in _OPEN:
                raise _Broken(f"found {first!a} between two objects")
            yield text.value()
        return
    path = names.split(".") if names else []
    for level, name in enumerate(path, 1):
        text.take("{")
        _find(text, name)
        if level < len(path) and text.peek() != "{":
            raise _Broken(f"no object at {name}")
    yield from _elements(text)
    for name in reversed(path):
        _leave(text, name)
    if text.peek():
        raise _Broken("something follows its end")


def _name(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise _Broken(f"{error}") from error


def _skip(text: _Text) -> None:
    """A member that is no record: it has to be JSON all the same."""
    if not _is_json(value := text.value()):
        raise _Broken(f"found {value[:20]!a}, which is no JSON")


def _find(text: _Text, name: str) -> None:
    """Up to the value of that member."""
    while text.peek() == '"':
        member = _name(text.string())
        text.take(":")
        if member == name:
            return
        _skip(text)
        text.take(",")
    raise _Broken(f"no member {name}")


def _leave(text: _Text, name: str) -> None:
    """To the end of the object, from behind the value of a member."""
    while text.peek() == ",":
        text.take(",")
        text.peek()
        if _name(text.string()) == name:
            raise _Broken(f"{name} twice")
        text.take(":")
        _skip(text)
    text.take("}")


def _elements(text: _Text) -> Iterator[str]:
    text.take("[")
    if text.peek() == "]":
        text.take("]")
        return
    while True:
        text.peek()
        value = text.value()
        if value[:1] not in (*_OPEN,) and not _is_json(value):
            raise _Broken(f"{value[:20]!a} among the elements")
        yield value
        if text.peek() == "]":
            text.take("]")
            return
        text.take(",")


def _is_json(value: str) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True


def _wanted(value: str) -> Wanted:
    record = record_of(value.encode())
    if not record.is_object:
        return Wanted(Fate.DEAD, lambda row: "it is a row, and is no JSON object")
    return Wanted(record.fate, record.differs)
