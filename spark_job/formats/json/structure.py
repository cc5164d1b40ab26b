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
_SMALL_DEPTH = 16_000
_ONE = pa.scalar(1, pa.uint8())


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
        moves = _unsigned(plain.translate(_DEPTH))
        if inside is not None:  # where it is 1, nothing is left of the move
            moves = pc.bit_wise_and(moves, pc.subtract(inside, _ONE))
        steps = moves.view(pa.int8())
        depths, base = self._depths(steps)
        at_base = pc.equal(depths, base)
        outer = -1
        if pc.min(depths).as_py() < base.as_py():
            outer = pc.index(depths, pc.subtract(base, pa.scalar(1, base.type))).as_py()
        inner = pc.equal(depths, pc.add(base, pa.scalar(1, base.type)))
        starts = _where(pc.and_(pc.equal(steps, pa.scalar(1, pa.int8())), inner))
        ends = _where(pc.and_(pc.equal(steps, pa.scalar(-1, pa.int8())), at_base))
        if outer >= 0:
            starts, ends = ([at for at in some if at < outer] for some in (starts, ends))
        in_strings = _line_ends_in_strings(piece, inside)
        return Marks(starts, ends, outer if outer >= 0 else None, in_strings)

    def _depths(self, steps: pa.Array) -> tuple[pa.Array, pa.Scalar]:
        """The depth behind each byte, and that around the values; both relative to the depth before the first byte. In
        16 bits, which is faster, unless that many are open."""
        before, kind = self._depth, pa.int16()
        depths = pc.cumulative_sum(steps.cast(kind))
        reached = pc.min_max(depths).as_py()
        if max(before, -reached["min"], reached["max"]) > _SMALL_DEPTH:
            kind = pa.int32()
            depths = pc.cumulative_sum(steps.cast(kind))
        self._depth = before + depths[-1].as_py()
        return depths, pa.scalar(self._base - before, kind)

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
        # Only the last bit counts, so that the sum may overflow.
        quotes = pc.cumulative_sum(_unsigned(plain.translate(_QUOTE)))
        inside = pc.bit_wise_and(pc.add(quotes, _ONE) if self._in_string else quotes, _ONE)
        self._in_string = inside[-1].as_py()
        return inside


def without_line_ends(piece: bytes) -> bytes:
    """Of the same length."""
    return piece.translate(_NO_LINE_ENDS) if b"\n" in piece or b"\r" in piece else piece


def _unsigned(data: bytes) -> pa.Array:
    return pa.Array.from_buffers(pa.uint8(), len(data), [None, pa.py_buffer(data)])


def _where(mask: pa.Array) -> list[int]:
    found: list[int] = pc.indices_nonzero(mask).to_pylist()
    return found


def _line_ends_in_strings(piece: bytes, inside: pa.Array | None) -> list[int]:
    if inside is None or (b"\n" not in piece and b"\r" not in piece):
        return []
    codes = _unsigned(piece)
    are_ends = pc.or_(pc.equal(codes, pa.scalar(10, pa.uint8())), pc.equal(codes, pa.scalar(13, pa.uint8())))
    return _where(pc.and_(are_ends, pc.equal(inside, _ONE)))
