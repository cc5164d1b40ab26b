"""The JSON values in the beginning of a file: one a line, in an array, or after each other."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from spark_job.formats.reading import BOM

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}\[\],]', re.DOTALL)
_BIG_NUMBER = re.compile(rb"[0-9]{19}")
_BEGIN = re.compile(rb'[{\[][{\[\s]*(?:"|\Z|-?[0-9]|true|false|null)')
_CLOSING = {ord("{"): b"}", ord("["): b"]"}


class NotJson(ValueError):
    pass


def parsed(text: bytes) -> Any:
    """Raises NotJson. orjson takes numbers of more than 64 bits for floats, and no NaN."""
    try:
        if _BIG_NUMBER.search(text) is None:
            return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error


@dataclass(frozen=True, slots=True)
class Values:
    """`broken`: how many pieces between the values are not JSON. `is_cut`: whether another value, which is not among
    them, is cut off. `cut`: this one, with those elements of its outermost array that are whole; None: it has none."""

    values: Sequence[Any]
    broken: int
    is_cut: bool = False
    cut: Any = None


def line_values(data: bytes, *, is_whole: bool) -> Values:
    """One value a line. Without its end, the last line does not count."""
    lines = data.removeprefix(BOM).split(b"\n")
    if not is_whole:
        lines.pop()
    found, broken = list[Any](), 0
    for line in lines:
        if bare := line.strip(b" \t\r"):
            try:
                found.append(parsed(bare))
            except NotJson:
                broken += 1
    return Values(found, broken)


def document_values(data: bytes, *, is_whole: bool) -> Values:
    """The outermost values."""
    data = data.removeprefix(BOM)
    found, broken, cut, is_cut = list[Any](), 0, None, False
    for text, is_part in _outermost(data, is_whole=is_whole):
        try:
            if is_part:
                is_cut = not text or _BEGIN.match(text) is not None
                cut = parsed(text) if text else None
            else:
                found.append(parsed(text))
        except NotJson:
            broken += 1
            is_cut = False
    return Values(found, broken, is_cut, cut)


def _outermost(data: bytes, *, is_whole: bool) -> Iterator[tuple[bytes, bool]]:
    """Each with whether it is a part, of the last one: up to the last whole element of its outermost array, or else the
    last comma; empty if it looks like JSON but has neither."""
    open_ones, start = _Open(), 0
    for match in _TOKEN.finditer(data):
        token = data[match.start()]
        if token in b"{[":
            start = start if open_ones.stack else match.start()
            open_ones.begin(token)
        elif token in b"}]" and open_ones.stack:
            open_ones.end(match.end())
            if not open_ones.stack:
                yield data[start : match.end()], False
        elif token == ord(",") and open_ones.stack:
            open_ones.divide(match.start())
    if open_ones.stack and not is_whole:
        end, closing = open_ones.part()
        if end > start:
            yield data[start:end] + closing, True
        elif _BEGIN.match(data, start):
            yield b"", True


@dataclass(slots=True)
class _Open:
    """The arrays and objects that have begun. `array`: how deep the outermost array is; 0: there is none. `elements`,
    `comma`: where its last whole element and the last member of anything end, with what closes the rest there."""

    stack: list[int] = field(default_factory=list)
    array: int = 0
    elements: tuple[int, bytes] = (0, b"")
    comma: tuple[int, bytes] = (0, b"")

    def begin(self, token: int) -> None:
        self.stack.append(token)
        if token == ord("[") and not self.array:
            self.array, self.elements = len(self.stack), (0, b"")

    def end(self, at: int) -> None:
        self.stack.pop()
        if len(self.stack) < self.array:
            self.array = 0
        elif len(self.stack) == self.array:
            self.elements = at, self._closing()

    def divide(self, at: int) -> None:
        self.comma = at, self._closing()
        if len(self.stack) == self.array:
            self.elements = self.comma

    def part(self) -> tuple[int, bytes]:
        return self.elements if self.array else self.comma

    def _closing(self) -> bytes:
        return b"".join(_CLOSING[mark] for mark in reversed(self.stack))


def records_path(value: Any) -> tuple[str, ...] | None:
    """The names that lead to the array of records within one object; None if the object is a record itself.

    It is a wrapper if its only array of objects, at most three names deep, holds more than all its other members.
    """
    if not isinstance(value, dict):
        return None
    paths = [*_arrays_of_objects(value, ())]
    if len(paths) != 1:
        return None
    path, records = paths[0]
    others = {name: held for name, held in value.items() if name != path[0]}
    looks_like_one = not others or path[0].lower() in _WRAPPERS or _is_metadata(others)
    holds_most = len(json.dumps(records, default=str)) > len(json.dumps(others, default=str))
    return path if looks_like_one and holds_most and not _has_id(others) else None


_WRAPPERS = {"records", "results", "response", "data", "rows", "value", "values", "hits", "features", "entries"}
_METADATA = {"count", "total", "next", "previous", "page", "pages", "meta", "metadata", "status", "kind", "version"}
_METADATA |= {
    "type",
    "paging",
    "links",
    "took",
    "offset",
    "limit",
    "cursor",
    "next_token",
    "nexttoken",
    "ok",
    "success",
}


def _is_metadata(members: Mapping[str, Any]) -> bool:
    return all(name.lower() in _METADATA for name in members)


def _has_id(members: Mapping[str, Any]) -> bool:
    return any(name.lower() in ("id", "_id", "uuid") or name.lower().endswith("_id") for name in members)


def _arrays_of_objects(value: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    for name, held in value.items():
        if "." in name or not name:
            continue
        if isinstance(held, list) and held and all(isinstance(one, dict) for one in held):
            yield (*path, name), held
        elif isinstance(held, dict) and len(path) < 2:
            yield from _arrays_of_objects(held, (*path, name))


def records_at(value: Any, path: Sequence[str]) -> list[Any]:
    """The elements of the array at the end of the path; none if there is no such array."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, list) else []
