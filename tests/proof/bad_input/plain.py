"""An independent reading of a file's bytes: its lines, or the stages at which the whole file may be refused."""

from collections.abc import Sequence
from dataclasses import dataclass

from blizzard.state.dead_letters import Stage
from tests.proof.bad_input.corpus import MOST_FILE_BYTES, MOST_RECORD_BYTES
from tests.proof.bad_input.plain_codecs import BY_EXTENSION

_BLANKS = b" \t\r\v\f"


@dataclass(frozen=True, slots=True)
class Plain:
    """`faults`: the stages at which the whole file may be refused; empty: each of `lines` is a row or a dead letter."""

    faults: frozenset[Stage]
    lines: Sequence[bytes]


def plainly(path: str, body: bytes, *, is_text: bool) -> Plain:
    """`is_text`: blank lines are records too, and a line may be invalid UTF-8."""
    faults: set[Stage] = set()
    for extension, unpack in BY_EXTENSION.items():
        if path.endswith(extension):
            body, sound = unpack(body, MOST_FILE_BYTES)
            faults |= set() if sound else {Stage.DECOMPRESS}
            break
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
