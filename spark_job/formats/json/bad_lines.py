"""Finds the lines of a block that a JSON reader refuses, at a bounded cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from spark_job.formats.json.arrow_reader import ReadFailed
from spark_job.formats.json.line_objects import TypeMismatch, arrow_accepts, parse_unique_keys
from spark_job.formats.json.parser_limits import ParserLimits
from spark_job.formats.json.refusal import refusal
from spark_job.formats.json.value_kinds import TWO_OBJECTS, other_type_pattern

# A failed attempt costs about as much as 100 short lines, plus what was read before it failed. Parsing a line into
# Python objects costs about as much as 5. So bad lines are removed one by one as long as they are rare, and the first
# few in any case.
_MIN_LINES_PER_FAILURE = 30
_MIN_ATTEMPTS = 16
_CHUNK_LINES = 512
_LAST_CHUNK_LINES = 32
# Lines that match a pattern are removed unchecked if they are at most this share of all lines, or if at most this share
# of a sample of them is good.
_MAX_UNCHECKED_SHARE = 0.05
_SAMPLE_LINES = 64
_BLANKS = b" \t\r"
_SECOND_LOOK = (b"N", b"I", b"\\u")
_PLAIN_FAULTS = ("unexpected ", "trailing comma ")

Read = Callable[[pa.Buffer | bytes], pa.Table]


class Refused(NamedTuple):
    """A line that was removed."""

    text: bytes
    why: str | None
    """Why the line is certain to be a dead letter. None: it is a JSON object, and Spark decides."""


@dataclass(frozen=True, slots=True)
class GoodLines:
    """What the reader accepted of a block, and why the other lines were removed."""

    table: pa.Table
    lines: Callable[[], list[bytes]]
    """The lines in the table, in order."""
    numbers: Sequence[int]
    refused: Mapping[int, Refused]
    """The removed lines, by line number."""
    may_have_other_keys: bool = True
    """Whether there may be keys that no column is for."""


class BadLineSearch:
    """The search for the bad lines of one block. `read` raises ReadFailed; `empty` is its result for no lines."""

    def __init__(
        self, schema: StructType, styles: Mapping[str, str], limits: ParserLimits, read: Read, empty: pa.Table
    ) -> None:
        self._limits = limits
        self._schema = schema
        self._styles = styles
        self._read = read
        self._empty = empty
        self._refused: dict[int, Refused] = {}
        self._accepts: Callable[[Any], bool] | None = None
        self._lines: pa.Array = pa.array([], pa.large_binary())
        """The lines that look like objects. The index of a line here is its place; `_numbers` has line numbers by
        place."""
        self._numbers: Sequence[int] = ()
        self._out: set[int] = set()
        """Places of the removed lines."""

    def search(self, block: bytes) -> GoodLines:
        """Searches any block."""
        self._lines, self._numbers = self._outer_form(_split(block))
        body = block if not self._refused else _joined(self._lines).to_pybytes()
        within_limits = self._limits.allow(body)
        if self._numbers and within_limits:
            table = self._try_read(body, len(self._numbers))
            if isinstance(table, pa.Table):
                return GoodLines(table, self._lines.to_pylist, self._numbers, self._refused)
            return self._separate(within_limits=within_limits, column=table.column)
        return self._separate(within_limits=within_limits)

    def search_objects(self, block: bytes, count: int, column: str | None) -> GoodLines:
        """Searches a block whose lines all begin with { and end with }. `column`: the column in which the reader found
        a value of another type, if it is known."""
        self._numbers = range(count)
        self._lines = _split(block)
        return self._separate(within_limits=True, column=column)

    def _separate(self, *, within_limits: bool, column: str | None = None) -> GoodLines:
        places = list(range(len(self._lines)))
        if not within_limits:
            lines = self._lines.to_pylist()
            self._refuse({at: refusal_reason(lines[at]) for at in places if not self._limits.allow_line(lines[at])})
        pieces = self._readable_pieces(self._remaining(places), column)
        taken = [at for _, some in pieces for at in some]
        return GoodLines(
            pa.concat_tables([self._empty, *(table for table, _ in pieces)]),
            lambda: self._lines.take(pa.array(taken, pa.int64())).to_pylist(),
            [self._numbers[at] for at in taken],
            self._refused,
        )

    def _outer_form(self, lines: pa.Array) -> tuple[pa.Array, Sequence[int]]:
        """The lines that begin with { and end with }, and their numbers; found without touching each line."""
        braced = pc.and_(pc.starts_with(lines, b"{"), pc.ends_with(lines, b"}"))
        wanted = list[int]()
        for number in pc.indices_nonzero(pc.invert(braced)).to_pylist():
            line = lines[number].as_py()
            bare = line.strip(_BLANKS)
            if bare.startswith(b"{") and bare.endswith(b"}"):
                wanted.append(number)
            else:
                self._refused[number] = Refused(line, refusal_reason(line))
        if not self._refused:
            return lines, range(len(lines))
        keep = pc.indices_nonzero(braced)
        if wanted:
            keep = pa.concat_arrays([keep, pa.array(wanted, keep.type)]).sort()
        return lines.take(keep), keep.to_pylist()

    def _refuse(self, reasons: Mapping[int, str | None]) -> None:
        self._refused.update((self._numbers[at], Refused(self._line(at), why)) for at, why in reasons.items())
        self._out |= reasons.keys()

    def _remaining(self, places: list[int]) -> list[int]:
        return [at for at in places if at not in self._out] if self._out else places

    def _try_read(self, text: pa.Buffer | bytes, count: int) -> "pa.Table | ReadFailed":
        """Two objects on one line are a failure without a known row."""
        try:
            table = self._read(text) if count else self._empty
        except ReadFailed as failed:
            return failed
        return table if table.num_rows == count else ReadFailed(None)

    def _line(self, at: int) -> bytes:
        line: bytes = self._lines[at].as_py()
        return line

    def _lines_at(self, places: Sequence[int]) -> pa.Array:
        return self._lines if len(places) == len(self._lines) else self._lines.take(pa.array(places, pa.int64()))

    def _readable_pieces(self, places: list[int], column: str | None) -> list[tuple[pa.Table, list[int]]]:
        """Tables and the places of their lines, in order. `column`: one with values of another type; often it is the
        only one."""
        good: list[tuple[pa.Table, list[int]]] = []
        rest = places
        alone = StructType([self._schema[column]]) if column in self._schema.names else StructType()
        if pattern := other_type_pattern(alone, self._styles):
            self._refuse_matches(rest, pattern)
            good, rest = self._line_by_line(self._remaining(rest))
        if rest:
            pattern = "|".join(filter(None, [TWO_OBJECTS, other_type_pattern(self._schema, self._styles)]))
            self._refuse_matches(rest, pattern)
            more, rest = self._line_by_line(self._remaining(rest))
            good += more
        if rest:
            self._refuse(self._type_mismatches(rest))
            more, rest = self._line_by_line(self._remaining(rest))
            good += more + self._chunk_by_chunk(rest)
        return good

    def _line_by_line(self, places: list[int]) -> tuple[list[tuple[pa.Table, list[int]]], list[int]]:
        """Remove the lines at which the reader fails one by one, as long as they are rare. Returns what it accepted,
        and the places that remain undecided."""
        lines = self._lines_at(places)
        text = _joined(lines)
        starts: list[int] = []
        stops: list[int] = []
        while len(stops) < _MIN_ATTEMPTS or stops[-1] > len(stops) * _MIN_LINES_PER_FAILURE:
            first = stops[-1] + 1 if stops else 0
            begin = starts[first] if first else 0
            tail = self._try_read(text.slice(min(begin, text.size)), len(places) - first)
            if isinstance(tail, pa.Table):
                passed = self._remaining(places[:first])
                head = self._try_read(_joined(self._lines_at(passed)), len(passed))
                if isinstance(head, pa.Table):
                    return [(head, passed), (tail, places[first:])], []
                break
            if tail.row is None or first + tail.row >= len(places):
                break
            stop = self._failed_line(places, first, first + tail.row)
            starts = starts or [0, *accumulate(size + 1 for size in pc.binary_length(lines).to_pylist())]
            stops.append(stop)
            self._refuse({places[stop]: refusal_reason(self._line(places[stop]))})
        return [], self._remaining(places)

    def _failed_line(self, places: Sequence[int], first: int, stop: int) -> int:
        """The line at which the reader failed. If something follows the object of a line, the reader counts it as the
        next row."""
        follows = (
            stop > first and not self._type_mismatches([places[stop]]) and self._type_mismatches([places[stop - 1]])
        )
        return stop - 1 if follows else stop

    def _chunk_by_chunk(self, places: list[int], size: int = _CHUNK_LINES) -> list[tuple[pa.Table, list[int]]]:
        """The last resort: a few lines at a time, all of which are removed if one of them cannot be read."""
        pieces = []
        for start in range(0, len(places), size):
            chunk = places[start : start + size]
            table = self._try_read(_joined(self._lines_at(chunk)), len(chunk))
            if isinstance(table, pa.Table):
                pieces.append((table, chunk))
            elif len(chunk) > _LAST_CHUNK_LINES:
                pieces += self._chunk_by_chunk(chunk, size // 4)
            else:
                self._refuse({at: refusal_reason(self._line(at)) for at in chunk})
        return pieces

    def _refuse_matches(self, places: Sequence[int], pattern: str) -> None:
        """Remove lines that the pattern finds. If these are many, and a sample of them has more than a few good lines,
        only the bad ones are removed. Otherwise all are removed unchecked, and Spark decides the good ones."""
        found = pc.match_substring_regex(self._lines_at(places), pattern)
        suspects = [places[at] for at in pc.indices_nonzero(found).to_pylist()]
        if len(suspects) > _MAX_UNCHECKED_SHARE * len(places):
            sample = suspects[:: max(1, len(suspects) // _SAMPLE_LINES)]
            if len(self._type_mismatches(sample)) < (1 - _MAX_UNCHECKED_SHARE) * len(sample):
                self._refuse(self._type_mismatches(suspects))
                return
        self._refuse({at: refusal_reason(self._line(at)) for at in suspects})

    def _type_mismatches(self, places: Sequence[int]) -> dict[int, str | None]:
        """The lines that Arrow would refuse because of a type, with the reason if they are certain dead letters."""
        self._accepts = self._accepts or arrow_accepts(self._schema, self._styles)
        found: dict[int, str | None] = {}
        for at in places:
            try:
                if not self._accepts(parse_unique_keys(self._line(at))):
                    found[at] = None
            except (TypeMismatch, orjson.JSONDecodeError):
                found[at] = refusal_reason(self._line(at))
        return found


def _split(block: bytes) -> pa.Array:
    return pc.split_pattern(pa.array([block], pa.large_binary()), b"\n").values


def _joined(lines: pa.Array) -> pa.Buffer:
    """Joined by line feeds."""
    together = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    return pc.binary_join(together, pa.scalar(b"\n", pa.large_binary()))[0].as_buffer()


def refusal_reason(line: bytes) -> str | None:
    """Why a line is certain to be a dead letter, in the words of `refusal`; None for one JSON object."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        # `refusal` parses the line once more, which costs as much again and would find nothing else here.
        if not any(mark in line for mark in _SECOND_LOOK) and str(error).startswith(_PLAIN_FAULTS):
            return f"not JSON: {error}"
    else:
        if isinstance(value, dict):
            return None
    return refusal(line.decode())
