"""The values of a JSON text, one by one: the elements of an array, or objects that follow each other."""

import re
from dataclasses import dataclass, field
from typing import NoReturn

from blizzard.state.dead_letters import Stage
from spark_job.formats.json.separated_objects import SeparatedObjects
from spark_job.formats.json.structure import Structure, without_line_ends
from spark_job.formats.json.tokens import is_scalar, refuse
from spark_job.formats.protocol import FileFault, Limits
from spark_job.formats.record_list import JoinedRecords

LINE_END = "not JSON: a line end in a string; expected \\n"
_BLANKS = b" \t\r\n"
_SHOWN_BYTES = 40
_BEFORE_OBJECT = re.compile(rb"[ \t\r\n]*+(?={)")
_AFTER_VALUE = re.compile(rb"[ \t\r\n]*+,[ \t\r\n]*+(?={)")
_SCALAR = re.compile(rb'[ \t\r\n]*+("(?:[^"\\]|\\.)*+"|[^\s,"]++)[ \t\r\n]*+', re.DOTALL)


@dataclass(slots=True)
class Values:
    """Some values of a text, in order, without line ends. `broken`: why one cannot be used, by its number here."""

    count: int = 0
    broken: dict[int, str] = field(default_factory=dict)
    _texts: list[bytes] = field(default_factory=list)

    def add(self, text: bytes, count: int = 1) -> None:
        """Several values have a line end between each two."""
        self._texts.append(text)
        self.count += count

    def records(self) -> JoinedRecords:
        """One at least."""
        return JoinedRecords(b"\n".join(self._texts))


class ValueSplitter:
    """Divides one text. `in_array`: the text begins behind the bracket of an array, whose end is the text's end; and so
    for `objects`.

    Raises FileFault for what is between two values, and for a value above the limit.
    """

    def __init__(self, limits: Limits, objects: SeparatedObjects, *, in_array: bool) -> None:
        self._limits = limits
        self._in_array = in_array
        self._objects = objects
        self._depth = 1 if in_array else 0
        self._structure = Structure(self._depth)
        """Begins anew with what was waiting."""
        self._waiting = b""
        """What has not been looked at yet, between two values or from the beginning of one."""
        self._value: list[bytes] = []
        """The pieces so far of a value that has not ended."""
        self._value_bytes = 0
        self._value_is_broken = False
        self._gap: list[bytes] = []
        """The pieces so far of what is between two values."""
        self._count = 0
        self._expects_comma = False
        self.rest: bytes | None = None
        """What follows the array; None: it has not ended."""

    def split(self, piece: bytes) -> Values:
        """`piece`: the next bytes, at least one. Nothing may follow once there is a `rest`."""
        found = Values()
        if self._value or self._gap:
            self._look_closely(piece, found)
            return found
        text, self._waiting = self._waiting + piece, b""
        begin = self._begin_of_object(text)
        objects = self._objects.first_of(text[begin:]) if begin is not None else None
        if begin is None or objects is None or len(objects.text) > self._limits.max_record_bytes:
            self._look_closely(text, found)
            return found
        found.add(objects.text, objects.count)
        self._count += objects.count
        self._expects_comma = True
        self._waiting = text[begin + objects.size :]
        if self._in_array and (bare := self._waiting.lstrip(_BLANKS)).startswith(b"]"):
            self._waiting, self.rest = b"", bare[1:]
        return found

    def _begin_of_object(self, text: bytes) -> int | None:
        """Where an object begins with which, and with one comma where it is needed, the text begins."""
        match = (_AFTER_VALUE if self._in_array and self._expects_comma else _BEFORE_OBJECT).match(text)
        return match.end() if match else None

    def _look_closely(self, piece: bytes, found: Values) -> None:
        """Takes the values one by one."""
        marks = self._structure.marks(piece)
        flat, at = without_line_ends(piece), 0
        broken, starts = marks.in_strings, iter(marks.starts)
        for end in marks.ends:
            start = at if self._value else next(starts)
            if not self._value:
                self._end_gap(piece[at:start], found, value_follows=True)
            is_broken = self._value_is_broken or (bool(broken) and any(start <= place < end for place in broken))
            self._add(found, b"".join([*self._value, flat[start : end + 1]]), is_broken=is_broken)
            self._value, self._value_bytes, self._value_is_broken = [], 0, False
            at = end + 1
        if marks.outer_end is not None:
            if not self._in_array:
                refuse(f"after {self._count} values: a brace or bracket is closed that was not opened")
            if piece[marks.outer_end : marks.outer_end + 1] != b"]":
                refuse(f"after {self._count} values: its array ends with a brace")
            self._end_gap(piece[at : marks.outer_end], found, value_follows=False)
            self.rest = piece[marks.outer_end + 1 :]
        else:
            open_start = marks.starts[-1] if marks.starts and marks.starts[-1] >= at else None
            self._keep(piece, flat, at, open_start, broken, found)

    def finish(self) -> Values:
        """At the end of the text."""
        found = Values()
        while self._waiting:
            text, self._waiting = self._waiting, b""
            self._look_closely(text, found)
        if self.rest is not None:
            return found
        if self._value or not self._structure.is_between_values:
            refuse(f"truncated: it ends within value {self._count}")
        if self._in_array:
            refuse(f"truncated: its array does not end after value {self._count - 1}" if self._count else "truncated")
        self._end_gap(b"", found, value_follows=False)
        return found

    def _keep(self, piece: bytes, flat: bytes, at: int, start: int | None, broken: list[int], found: Values) -> None:
        """What is left of a piece after its last whole value."""
        if at:
            self._waiting = piece[at:]
            self._structure = Structure(self._depth)
            return
        if not self._value and start is not None:
            self._end_gap(piece[:start], found, value_follows=True)
        if self._value or start is not None:
            begin = start or 0
            self._value.append(flat[begin:])
            self._value_bytes += len(piece) - begin
            self._value_is_broken |= any(place >= begin for place in broken)
            self._check_length(self._value_bytes)
        else:
            self._gap.append(piece)
            if sum(map(len, self._gap)) > self._limits.max_record_bytes:
                most, seen = self._limits.max_record_bytes, _shown(b"".join(self._gap)[:_SHOWN_BYTES].strip(_BLANKS))
                refuse(f"after {self._count} values: more than {most} bytes without an object, as {seen}")

    def _add(self, found: Values, value: bytes, *, is_broken: bool = False) -> None:
        self._check_length(len(value))
        if is_broken:
            found.broken[found.count] = LINE_END
        found.add(value)
        self._count += 1
        self._expects_comma = True

    def _end_gap(self, text: bytes, found: Values, *, value_follows: bool) -> None:
        """`text`: the last piece of what is between two values."""
        if self._gap:
            text, self._gap = b"".join([*self._gap, text]), []
        bare = text.strip(_BLANKS)
        if not self._in_array:
            if bare:
                refuse(f"after {self._count} values: found {_shown(bare)}, expected an object")
            return
        if bare == b"," and self._expects_comma and value_follows:
            return
        if not bare and not (self._expects_comma and value_follows):
            return
        self._scalars(bare, found, value_follows=value_follows)

    def _scalars(self, text: bytes, found: Values, *, value_follows: bool) -> None:
        """Elements that are neither objects nor arrays, with their commas."""
        place = 0
        while place < len(text):
            if text[place : place + 1] == b",":  # blanks around it belong to the values
                if not self._expects_comma:
                    self._refuse_gap(text)
                self._expects_comma, place = False, place + 1
                continue
            match = _SCALAR.match(text, place)
            if match is None or self._expects_comma or not is_scalar(match[1]):
                self._refuse_gap(text)
            self._add(found, without_line_ends(match[1]))
            place = match.end()
        if value_follows == self._expects_comma:
            self._refuse_gap(text)

    def _refuse_gap(self, text: bytes) -> NoReturn:
        refuse(f"after {self._count} values of its array: found {_shown(text)}; expected one comma between two values")

    def _check_length(self, length: int) -> None:
        if length > self._limits.max_record_bytes:
            reason = f"limit max_record_bytes: value {self._count} has more than {self._limits.max_record_bytes} bytes"
            raise FileFault(Stage.PARSE, reason)


def _shown(text: bytes) -> str:
    if not text:
        return "nothing"
    return repr(text[:_SHOWN_BYTES].decode(errors="replace")) + ("…" if len(text) > _SHOWN_BYTES else "")
