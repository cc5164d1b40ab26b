"""The values of a JSON text, one by one: the elements of an array, or objects that follow each other."""

import re
from dataclasses import dataclass, field
from typing import NoReturn

from blizzard.state.dead_letters import Stage
from spark_job.formats.json.structure import Marks, Structure, without_line_ends
from spark_job.formats.json.tokens import is_scalar, refuse
from spark_job.formats.protocol import FileFault, Limits
from spark_job.formats.record_list import JoinedRecords

LINE_END = "not JSON: a line end in a string; expected \\n"
_BLANKS = b" \t\r\n"
_SHOWN_BYTES = 40
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
    """Divides one text. `in_array`: the text begins behind the bracket of an array, whose end is the text's end.

    Raises FileFault for what is between two values, and for a value above the limit.
    """

    def __init__(self, limits: Limits, *, in_array: bool) -> None:
        self._limits = limits
        self._in_array = in_array
        self._structure = Structure(1 if in_array else 0)
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
        found, marks = Values(), self._structure.marks(piece)
        flat, at = without_line_ends(piece), 0
        broken, starts = marks.in_strings, iter(marks.starts)
        may_join = self._in_array and not broken
        for number, end in enumerate(marks.ends):
            start = at if self._value else next(starts)
            if not self._value:
                self._end_gap(piece[at:start], found, value_follows=True)
                if may_join and self._add_joined(found, marks, start, len(marks.ends) - number):
                    at = marks.ends[-1] + 1
                    break
                may_join = False
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
        return found

    def finish(self) -> Values:
        """At the end of the text."""
        found = Values()
        if self._value or not self._structure.is_between_values:
            refuse(f"truncated: it ends within value {self._count}")
        if self._in_array:
            refuse(f"truncated: its array does not end after value {self._count - 1}" if self._count else "truncated")
        self._end_gap(b"", found, value_follows=False)
        return found

    def _keep(self, piece: bytes, flat: bytes, at: int, start: int | None, broken: list[int], found: Values) -> None:
        """What is left of a piece after its last whole value."""
        if not self._value and start is not None:
            self._end_gap(piece[at:start], found, value_follows=True)
        if self._value or start is not None:
            begin = at if self._value else start
            assert begin is not None
            self._value.append(flat[begin:])
            self._value_bytes += len(piece) - begin
            self._value_is_broken |= any(place >= begin for place in broken)
            self._check_length(self._value_bytes)
        else:
            self._gap.append(piece[at:])
            if sum(map(len, self._gap)) > self._limits.max_record_bytes:
                most, seen = self._limits.max_record_bytes, _shown(b"".join(self._gap)[:_SHOWN_BYTES].strip(_BLANKS))
                refuse(f"after {self._count} values: more than {most} bytes without an object, as {seen}")

    def _add_joined(self, found: Values, marks: Marks, start: int, count: int) -> bool:
        """Adds these values at once, if they are objects with nothing odd between them, and none is large."""
        text = marks.joined_objects(start, count)
        if text is None or len(text) > self._limits.max_record_bytes:
            return False
        found.add(text, count)
        self._count += count
        self._expects_comma = True
        return True

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
