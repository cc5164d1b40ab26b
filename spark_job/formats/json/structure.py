"""Where the values of a JSON text begin and end, found for a whole piece of text at once.

The state of the text goes on from piece to piece: whether a string is open, and how many braces and brackets are.
"""

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

_QUOTE = bytes(byte == ord('"') for byte in range(256))
_DEPTH = bytes({ord("{"): 1, ord("["): 1, ord("}"): 255, ord("]"): 255}.get(byte, 0) for byte in range(256))
"""255 is -1 as a signed byte."""
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_NO_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


@dataclass(frozen=True, slots=True)
class Marks:
    """Positions in a piece of text, in order. `starts`: where a value begins that is an object or array. `ends`: the
    last byte of one. `outer_end`: where the array around the values ends; None if it goes on. `in_strings`: line ends
    within strings, where JSON allows none."""

    starts: list[int]
    ends: list[int]
    outer_end: int | None
    in_strings: list[int]


class Structure:
    """Of one text. `depth`: of the brackets around its values."""

    def __init__(self, depth: int) -> None:
        self._base = depth
        self._depth = depth
        self._in_string = 0
        self._escaped = False

    @property
    def is_between_values(self) -> bool:
        return self._depth == self._base and not self._in_string

    def marks(self, piece: bytes) -> Marks:
        """`piece`: the next bytes of the text, at least one. Nothing behind `outer_end` counts."""
        plain = self._without_escapes(piece)
        inside = self._inside_strings(plain)
        steps = _signed(plain.translate(_DEPTH))
        if inside is not None:
            steps = pc.multiply(steps, pc.subtract(pa.scalar(1, pa.int32()), inside))
        depths = pc.add(pc.cumulative_sum(steps), pa.scalar(self._depth, pa.int32()))
        self._depth = depths[-1].as_py()
        base = pa.scalar(self._base, pa.int32())
        ups, downs = pc.greater(steps, 0), pc.less(steps, 0)
        outer = pc.index(depths, pa.scalar(self._base - 1, pa.int32())).as_py()
        starts = _where(pc.and_(ups, pc.equal(depths, pc.add(base, 1))))
        ends = _where(pc.and_(downs, pc.equal(depths, base)))
        if outer >= 0:
            starts, ends = ([at for at in some if at < outer] for some in (starts, ends))
        return Marks(starts, ends, outer if outer >= 0 else None, _line_ends_in_strings(piece, inside))

    def _without_escapes(self, piece: bytes) -> bytes:
        """Of the same length."""
        if self._escaped:
            piece = b"_" + piece[1:]
        self._escaped = False
        if b"\\" not in piece:
            return piece
        plain = _ESCAPE.sub(b"__", piece)
        self._escaped = plain.endswith(b"\\")
        return plain

    def _inside_strings(self, plain: bytes) -> pa.Array | None:
        """1 for each byte in a string, with the quote before it; 0 elsewhere. None: there is no string."""
        if b'"' not in plain and not self._in_string:
            return None
        quotes = pc.cumulative_sum(_signed(plain.translate(_QUOTE)))
        if self._in_string:
            quotes = pc.add(quotes, 1)
        inside = pc.bit_wise_and(quotes, 1)
        self._in_string = inside[-1].as_py()
        return inside


def without_line_ends(piece: bytes) -> bytes:
    """Of the same length."""
    return piece.translate(_NO_LINE_ENDS) if b"\n" in piece or b"\r" in piece else piece


def _signed(data: bytes) -> pa.Array:
    return pa.Array.from_buffers(pa.int8(), len(data), [None, pa.py_buffer(data)]).cast(pa.int32())


def _where(mask: pa.Array) -> list[int]:
    found: list[int] = pc.indices_nonzero(mask).to_pylist()
    return found


def _line_ends_in_strings(piece: bytes, inside: pa.Array | None) -> list[int]:
    if inside is None or (b"\n" not in piece and b"\r" not in piece):
        return []
    codes = pa.Array.from_buffers(pa.uint8(), len(piece), [None, pa.py_buffer(piece)])
    are_ends = pc.or_(pc.equal(codes, 10), pc.equal(codes, 13))
    return _where(pc.and_(are_ends, pc.equal(inside, 1)))
