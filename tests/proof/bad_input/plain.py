"""An independent reading of a file's bytes: its lines, or the stages at which the whole file may be refused."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from blizzard.state.dead_letters import Stage
from tests.proof.bad_input.corpus import MOST_FILE_BYTES, MOST_RECORD_BYTES

_BLANKS = b" \t\r\v\f"
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Plain:
    """`faults`: the stages at which the whole file may be refused; empty: each of `lines` is a row or a dead letter."""

    faults: frozenset[Stage]
    lines: Sequence[bytes]


def plainly(path: str, body: bytes, *, is_text: bool) -> Plain:
    """`is_text`: blank lines are records too, and a line may be invalid UTF-8."""
    faults: set[Stage] = set()
    if path.endswith((".gz", ".zst")):
        body, sound = _inflated(body) if path.endswith(".gz") else _unpacked(body)
        faults |= set() if sound else {Stage.DECOMPRESS}
    if len(body) > MOST_FILE_BYTES:
        faults.add(Stage.DECOMPRESS)
    *ended, last = body.split(b"\n")
    lines = [line.removesuffix(b"\r") for line in ended] + [last] * bool(last)
    if lines:
        lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
    if not is_text:
        lines = [line for line in lines if line.strip(_BLANKS)]
    if any(len(line) > MOST_RECORD_BYTES for line in lines) or not (is_text or is_utf8(b"\n".join(lines))):
        faults.add(Stage.PARSE)
    return Plain(frozenset(faults), lines)


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _inflated(body: bytes) -> tuple[bytes, bool]:
    """Decompresses with zlib, to just above the limit at most. Returns the bytes, and whether the stream is
    complete."""
    out, rest = b"", body
    while rest and len(out) <= MOST_FILE_BYTES:
        member = zlib.decompressobj(wbits=31)
        try:
            out += member.decompress(rest, MOST_FILE_BYTES + 1)
            while member.unconsumed_tail and len(out) <= MOST_FILE_BYTES:
                out += member.decompress(member.unconsumed_tail, MOST_FILE_BYTES + 1)
        except zlib.error:
            return out, False
        if len(out) > MOST_FILE_BYTES:
            return out, True
        if not member.eof:
            return out, False
        rest = member.unused_data.lstrip(b"\0")
    return out, True


def _unpacked(body: bytes) -> tuple[bytes, bool]:
    """The same for zstd."""
    out, stream = b"", pa.CompressedInputStream(pa.BufferReader(body), "zstd")
    try:
        while len(out) <= MOST_FILE_BYTES and (piece := stream.read(_PIECE_BYTES)):
            out += piece
    except OSError:
        return out, False
    return out, True
