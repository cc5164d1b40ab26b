"""Which lines of a block make a JSON reader stop, at a bounded cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from spark_job.formats.ndjson.arrow_reader import ReadFailed
from spark_job.formats.ndjson.line_objects import Misfit, fitting, without_doubles
from spark_job.formats.ndjson.parser_limits import Bounds
from spark_job.formats.ndjson.refusal import refusal
from spark_job.formats.ndjson.value_kinds import TWO_OBJECTS, of_another_kind

# A failed attempt costs about as much as 100 short lines, and what it read before it failed; a look at a line as Python
# objects costs about as much as 5. So lines are left out one by one while they are rare.
_RARE = 30
_ATTEMPTS = 16
_CHUNK_LINES = 512
_LAST_CHUNK_LINES = 32
_FEW = 0.05
_SAMPLE = 64
_BLANKS = b" \t\r"
_SECOND_LOOK = (b"N", b"I", b"\\u")
_PLAIN_FAULTS = ("unexpected ", "trailing comma ")

Read = Callable[[pa.Buffer | bytes], pa.Table]


class Refused(NamedTuple):
    """A line that was left out."""

    text: bytes
    why: str | None
    """Why it is surely dead; None for one JSON object."""


@dataclass(frozen=True, slots=True)
class Isolated:
    """What a reader took of a block, and why the other lines were left out."""

    table: pa.Table
    lines: Callable[[], list[bytes]]
    """Those the table was made of, in order."""
    numbers: Sequence[int]
    refused: Mapping[int, Refused]
    """By number."""


class Isolation:
    """The lines of one block that a reader cannot take. `read` raises ReadFailed; `empty` is what it gives for none."""

    def __init__(
        self, schema: StructType, styles: Mapping[str, str], bounds: Bounds, read: Read, empty: pa.Table
    ) -> None:
        self._bounds = bounds
        self._schema = schema
        self._styles = styles
        self._read = read
        self._empty = empty
        self._refused: dict[int, Refused] = {}
        self._fits: Callable[[Any], bool] | None = None
        self._lines: pa.Array = pa.array([], pa.large_binary())
        """By their place among the lines that look like objects, as `_numbers` has their numbers."""
        self._numbers: Sequence[int] = ()
        self._out: set[int] = set()
        """Places that are left out."""

    def isolated(self, block: bytes) -> Isolated:
        """Of any block."""
        self._lines, self._numbers = self._outer_form(_split(block))
        body = block if not self._refused else _joined(self._lines).to_pybytes()
        sound = self._bounds.hold(body)
        if self._numbers and sound:
            table = self._attempt(body, len(self._numbers))
            if isinstance(table, pa.Table):
                return Isolated(table, self._lines.to_pylist, self._numbers, self._refused)
            return self._apart(sound=sound, column=table.column)
        return self._apart(sound=sound)

    def isolated_values(self, block: bytes, count: int, column: str | None) -> Isolated:
        """Of a block that the reader cannot take although the outer form of its lines is right. `column`: where it
        found a value of another kind, if it said so."""
        self._numbers = range(count)
        self._lines = _split(block)
        return self._apart(sound=True, column=column)

    def _apart(self, *, sound: bool, column: str | None = None) -> Isolated:
        places = list(range(len(self._lines)))
        if not sound:
            lines = self._lines.to_pylist()
            self._leave_out({at: reason(lines[at]) for at in places if not self._bounds.hold_line(lines[at])})
        pieces = self._pieces(self._kept(places), column)
        taken = [at for _, some in pieces for at in some]
        return Isolated(
            pa.concat_tables([self._empty, *(table for table, _ in pieces)]),
            lambda: self._lines.take(pa.array(taken, pa.int64())).to_pylist(),
            [self._numbers[at] for at in taken],
            self._refused,
        )

    def _outer_form(self, lines: pa.Array) -> tuple[pa.Array, Sequence[int]]:
        """The lines that begin with { and end with }, and their numbers; such lines are not touched one by one."""
        braced = pc.and_(pc.starts_with(lines, b"{"), pc.ends_with(lines, b"}"))
        wanted = list[int]()
        for number in pc.indices_nonzero(pc.invert(braced)).to_pylist():
            line = lines[number].as_py()
            bare = line.strip(_BLANKS)
            if bare.startswith(b"{") and bare.endswith(b"}"):
                wanted.append(number)
            else:
                self._refused[number] = Refused(line, reason(line))
        if not self._refused:
            return lines, range(len(lines))
        keep = pc.indices_nonzero(braced)
        if wanted:
            keep = pa.concat_arrays([keep, pa.array(wanted, keep.type)]).sort()
        return lines.take(keep), keep.to_pylist()

    def _leave_out(self, reasons: Mapping[int, str | None]) -> None:
        self._refused.update((self._numbers[at], Refused(self._line(at), why)) for at, why in reasons.items())
        self._out |= reasons.keys()

    def _kept(self, places: list[int]) -> list[int]:
        return [at for at in places if at not in self._out] if self._out else places

    def _attempt(self, text: pa.Buffer | bytes, count: int) -> "pa.Table | ReadFailed":
        """Two objects on one line are a failure without a row."""
        try:
            table = self._read(text) if count else self._empty
        except ReadFailed as failed:
            return failed
        return table if table.num_rows == count else ReadFailed(None)

    def _line(self, at: int) -> bytes:
        line: bytes = self._lines[at].as_py()
        return line

    def _at(self, places: Sequence[int]) -> pa.Array:
        return self._lines if len(places) == len(self._lines) else self._lines.take(pa.array(places, pa.int64()))

    def _pieces(self, places: list[int], column: str | None) -> list[tuple[pa.Table, list[int]]]:
        """Tables and what they were made of, in order. `column`: one that has values of another kind; often no other
        has."""
        good: list[tuple[pa.Table, list[int]]] = []
        rest = places
        alone = StructType([self._schema[column]]) if column in self._schema.names else StructType()
        if pattern := of_another_kind(alone, self._styles):
            self._leave_out_suspects(rest, pattern)
            good, rest = self._by_rows(self._kept(rest))
        if rest:
            pattern = "|".join(filter(None, [TWO_OBJECTS, of_another_kind(self._schema, self._styles)]))
            self._leave_out_suspects(rest, pattern)
            more, rest = self._by_rows(self._kept(rest))
            good += more
        if rest:
            self._leave_out(self._misfits(rest))
            more, rest = self._by_rows(self._kept(rest))
            good += more + self._in_chunks(rest)
        return good

    def _by_rows(self, places: list[int]) -> tuple[list[tuple[pa.Table, list[int]]], list[int]]:
        """Leave out, one by one, the lines that the reader stops at, while these are rare. Gives what it took, and what
        is not decided."""
        lines = self._at(places)
        text = _joined(lines)
        starts: list[int] = []
        stops: list[int] = []
        while len(stops) < _ATTEMPTS or stops[-1] > len(stops) * _RARE:
            first = stops[-1] + 1 if stops else 0
            begin = starts[first] if first else 0
            tail = self._attempt(text.slice(min(begin, text.size)), len(places) - first)
            if isinstance(tail, pa.Table):
                passed = self._kept(places[:first])
                head = self._attempt(_joined(self._at(passed)), len(passed))
                if isinstance(head, pa.Table):
                    return [(head, passed), (tail, places[first:])], []
                break
            if tail.row is None or first + tail.row >= len(places):
                break
            stop = self._culprit(places, first, first + tail.row)
            starts = starts or [0, *accumulate(size + 1 for size in pc.binary_length(lines).to_pylist())]
            stops.append(stop)
            self._leave_out({places[stop]: reason(self._line(places[stop]))})
        return [], self._kept(places)

    def _culprit(self, places: Sequence[int], first: int, stop: int) -> int:
        """Which line the reader stopped at. If something follows the object of the line before, it counts that as the
        next row."""
        follows = stop > first and not self._misfits([places[stop]]) and self._misfits([places[stop - 1]])
        return stop - 1 if follows else stop

    def _in_chunks(self, places: list[int], size: int = _CHUNK_LINES) -> list[tuple[pa.Table, list[int]]]:
        """The last resort: a few lines at once, and all of them left out when one of them cannot be read."""
        pieces = []
        for start in range(0, len(places), size):
            chunk = places[start : start + size]
            table = self._attempt(_joined(self._at(chunk)), len(chunk))
            if isinstance(table, pa.Table):
                pieces.append((table, chunk))
            elif len(chunk) > _LAST_CHUNK_LINES:
                pieces += self._in_chunks(chunk, size // 4)
            else:
                self._leave_out({at: reason(self._line(at)) for at in chunk})
        return pieces

    def _leave_out_suspects(self, places: Sequence[int], pattern: str) -> None:
        """All at once what the pattern finds. Lines that merely look like it go too when they are few, or when hardly
        any of a sample fits."""
        found = pc.match_substring_regex(self._at(places), pattern)
        suspects = [places[at] for at in pc.indices_nonzero(found).to_pylist()]
        if len(suspects) > _FEW * len(places):
            sample = suspects[:: max(1, len(suspects) // _SAMPLE)]
            if len(self._misfits(sample)) < (1 - _FEW) * len(sample):
                self._leave_out(self._misfits(suspects))
                return
        self._leave_out({at: reason(self._line(at)) for at in suspects})

    def _misfits(self, places: Sequence[int]) -> dict[int, str | None]:
        """Which of these lines do not fit as far as can be seen, and why they are dead if that is sure."""
        self._fits = self._fits or fitting(self._schema, self._styles)
        found: dict[int, str | None] = {}
        for at in places:
            try:
                if not self._fits(without_doubles(self._line(at))):
                    found[at] = None
            except (Misfit, orjson.JSONDecodeError):
                found[at] = reason(self._line(at))
        return found


def _split(block: bytes) -> pa.Array:
    return pc.split_pattern(pa.array([block], pa.large_binary()), b"\n").values


def _joined(lines: pa.Array) -> pa.Buffer:
    """Divided by line feeds."""
    together = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    return pc.binary_join(together, pa.scalar(b"\n", pa.large_binary()))[0].as_buffer()


def reason(line: bytes) -> str | None:
    """Why a line is surely dead, as `refusal` says it; None for one JSON object."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        # `refusal` takes a second look, which costs as much again; here it would see no more.
        if not any(mark in line for mark in _SECOND_LOOK) and str(error).startswith(_PLAIN_FAULTS):
            return f"not JSON: {error}"
    else:
        if isinstance(value, dict):
            return None
    return refusal(line.decode())
