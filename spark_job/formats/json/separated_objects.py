"""Objects that follow each other in a JSON text, found many at a time.

The text is divided wherever it has the separator of its objects. Of each part only quotes, brackets and braces are
looked at, without quotes that stand side by side. This is its outline: `{{}[]}` for each record with an object and an
array in it, so that a file has few different ones. They tell which separators are inside of an object or a string.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

_LINE_END = b"\x01"
"""Stands for those of the text, so that a line end is free to divide it."""
_OUTLINE = b'{}[]"\n' + _LINE_END
_DROPPED = bytes(byte for byte in range(256) if byte not in _OUTLINE)
_MARKED = bytes.maketrans(b"\r\n", _LINE_END * 2)
_BLANKED = bytes.maketrans(_LINE_END, b" ")
_ODD_ESCAPE = re.compile(rb"\\[{}\[\]\n\x01]")
_IN_ARRAY = re.compile(rb"\}[ \t\r\n]*+,[ \t\r\n]*+\{")
_IN_ROW = re.compile(rb"\}[ \t\r\n]*+\{")
_FIRST_BYTES = 1 << 16
_MOST_KNOWN, _KNOWN_BYTES = 10_000, 200
"""How many outlines are known, and up to which size."""
_MOST_GAPS = 4
_QUOTE = ord('"')
_STEPS = {**dict.fromkeys(b"{[", 1), **dict.fromkeys(b"}]", -1)}


@dataclass(frozen=True, slots=True)
class FoundObjects:
    """`text`: the objects without line ends, with a line end between each two. `size`: their bytes in the text that was
    divided. `count`: one at least."""

    text: bytes
    size: int
    count: int


class _Shape(NamedTuple):
    """What a part does to the depth and the state before it. `lowest`: the least depth before its last byte, at most 1;
    `change`: the depth behind it; both relative to the depth before it."""

    lowest: int
    change: int
    in_string: bool


_WHOLE = _Shape(1, 0, in_string=False)


class SeparatedObjects:
    """Of texts, piece by piece. Threads may share it. `in_array`: the separator is a comma; else only blanks may be
    between two."""

    def __init__(self, *, in_array: bool) -> None:
        self._pattern = _IN_ARRAY if in_array else _IN_ROW
        self._gap: bytes | None = None
        """The last separator, without the braces around it: the next text mostly has the same."""

    def first_of(self, text: bytes) -> FoundObjects | None:
        """The objects with which a text begins, up to one that does not end, or to anything that takes a closer look.
        The text holds no NUL. None: there is no such object."""
        text = text[: text.rfind(b"}") + 1]
        if not text.startswith(b"{") or _LINE_END in text:
            return None
        marked = text.translate(_MARKED) if b"\n" in text or b"\r" in text else text
        gap = self._gap
        found = _divided(marked, gap) if gap is not None else None
        if found is None:
            found, self._gap = self._try_gaps(text, marked)
        if found is None or marked is text:
            return found
        return replace(found, text=found.text.translate(_BLANKED))

    def _try_gaps(self, text: bytes, marked: bytes) -> tuple[FoundObjects | None, bytes | None]:
        """With the gap that is between the outer objects, and not only between those inside of them."""
        gaps = {match[0] for match in self._pattern.finditer(text, 0, _FIRST_BYTES)}
        if not gaps and (match := self._pattern.search(text, _FIRST_BYTES >> 1)):
            gaps = {match[0]}
        for gap in sorted({gap[1:-1].translate(_MARKED) for gap in gaps}, key=len)[:_MOST_GAPS]:
            if found := _divided(marked, gap):
                return found, gap
        return (_divided(marked, None), None) if not gaps else (None, None)


def _divided(marked: bytes, gap: bytes | None) -> FoundObjects | None:
    """`gap`: None if there is only one object."""
    divided = marked if gap is None else marked.replace(b"}" + gap + b"{", b"}\n{")
    outlines = _outlines(divided)
    return _objects(divided, outlines, gap or b"") if outlines else None


def _objects(divided: bytes, outlines: Sequence[bytes], gap: bytes) -> FoundObjects | None:
    if any(_shape(outline, in_string=False) != _WHOLE for outline in {*outlines[:-1]}):
        return _joined(divided.split(b"\n"), outlines, gap)
    count = len(outlines)
    if _shape(outlines[-1], in_string=False) != _WHOLE:
        count, divided = count - 1, divided[: max(divided.rfind(b"\n"), 0)]
    return FoundObjects(divided, len(divided) + (count - 1) * (len(gap) - 1), count) if count else None


def _joined(parts: Sequence[bytes], outlines: Sequence[bytes], gap: bytes) -> FoundObjects | None:
    """With the parts of an object that has separators inside as one."""
    objects, first = list[bytes](), 0
    depth, in_string = 0, False
    for at, outline in enumerate(outlines):
        shape = _shape(outline, in_string=in_string)
        if shape is None or depth + shape.lowest <= 0:
            break
        depth, in_string = depth + shape.change, shape.in_string
        if not depth and not in_string:
            objects.append(gap.join(parts[first : at + 1]))
            first = at + 1
    text = b"\n".join(objects)
    return FoundObjects(text, len(text) + (len(objects) - 1) * (len(gap) - 1), len(objects)) if objects else None


def _shape(outline: bytes, *, in_string: bool) -> _Shape | None:
    """None: it has a line end in a string."""
    return (_known_shape_of if len(outline) <= _KNOWN_BYTES else _shape_of)(outline, in_string)


def _shape_of(outline: bytes, in_string: bool) -> _Shape | None:
    depths = [0]
    for byte in outline:
        if byte == _QUOTE:
            in_string = not in_string
        elif in_string and byte == _LINE_END[0]:
            return None
        depths.append(depths[-1] + (0 if in_string else _STEPS.get(byte, 0)))
    return _Shape(min(1, *depths[1:-1]), depths[-1], in_string)


_known_shape_of = lru_cache(_MOST_KNOWN)(_shape_of)


def _outlines(divided: bytes) -> list[bytes] | None:
    """None: a brace, bracket or line end is escaped, which only a text that is no JSON has."""
    if b"\\" in divided:
        divided = divided.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        if _ODD_ESCAPE.search(divided):
            return None
    return divided.translate(None, _DROPPED).replace(b'""', b"").split(b"\n")
