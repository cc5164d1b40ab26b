"""Damage to a good file: what a seed makes of it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.proof.bad_input.corpus import COMPRESS
from tests.proof.formats.corpus import KINDS, Base, Kind

_MARKS = (b"PAR1", b"ORC", b"Obj\x01", b"0123456789abcdef", b"\n", b",", b'"', b"[", b"{", b"<", b">")
"""What stands at the borders of a file's parts."""
_TOKENS = (
    *(b'"', b'""', b",", b"\n", b"\r", b"\r\n", b"\n\n", b";", b"\\", b'\\"', b"[", b"]", b"{", b"}", b"}{", b"],["),
    *(b"<", b">", b"</order>", b"<order>", b"&", b"&#0;", b"]]>", b"<!--", b"<?", b"\xef\xbb\xbf", b"\0", b"\xff"),
    *(b"\xc3", b"\xed\xa0\x80", b"null", b"NaN", b"1e400", b"-", b"9" * 25, b"PAR1", b"ORC", b"Obj\x01", b"\x80" * 10),
    *(b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\0\0\0\x80"),
)
_EXTENSIONS = ("", ".gz", ".zst")
UNDAMAGED = "nothing"
_UNDAMAGED_SHARE, _OUTSIDE_SHARE = 0.03, 0.35


@dataclass(frozen=True, slots=True)
class Damaged:
    """A file as it lands. `base`: whose options it has. `did`: what was done to it, in words."""

    kind: Kind
    base: Base
    path: str
    body: bytes
    did: Sequence[str]


def damaged(kind: Kind, seed: str) -> Damaged:
    rng = random.Random(seed)
    bases = kind.bases()
    base, other = rng.choice(bases), rng.choice(bases)
    if rng.random() < _UNDAMAGED_SHARE:
        return Damaged(kind, base, _path(kind, base.extension), base.stored, [UNDAMAGED])
    did: list[str] = []
    if not base.extension or rng.random() >= _OUTSIDE_SHARE:
        body = _damage(base.body, other.body, kind, rng, did)
        extension, stored = base.extension, _packed(base.extension, body)
    else:
        did.append("outside of the compression")
        extension, stored = base.extension, _damage(base.stored, other.stored, kind, rng, did)
    if rng.random() < 0.04:
        extension, stored = _wrong_codec(extension, stored, rng, did)
    return Damaged(kind, base, _path(kind, extension), stored, did)


def _path(kind: Kind, extension: str) -> str:
    return f"file.{kind.name}{extension}"


def _packed(extension: str, body: bytes) -> bytes:
    return COMPRESS[extension](body) if extension else body


def _wrong_codec(extension: str, stored: bytes, rng: random.Random, did: list[str]) -> tuple[str, bytes]:
    """Another extension, or compressed once more by another codec."""
    to = rng.choice([one for one in _EXTENSIONS if one != extension])
    if rng.random() < 0.5:
        did.append(f"named {to or 'without extension'}")
        return to, stored
    did.append(f"compressed as {to or 'before'}, named {extension or 'without extension'}")
    return extension, _packed(to, stored)


def _damage(body: bytes, other: bytes, kind: Kind, rng: random.Random, did: list[str]) -> bytes:
    if rng.random() < 0.02:
        another = rng.choice([one for one in KINDS.values() if one.name != kind.name])
        did.append(f"another format: {another.name}")
        return rng.choice(another.bases()).stored
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        name = rng.choice(_MILD if rng.random() < 0.5 else list(_MUTATORS))
        did.append(name)
        body = _MUTATORS[name](body, other, rng)
    return body


def _place(body: bytes, rng: random.Random) -> int:
    """Anywhere, near the start or the end, or at the border of a part."""
    which = rng.random()
    if which < 0.15:
        return min(len(body), rng.randrange(20))
    if which < 0.35:
        return max(0, len(body) - rng.choice((rng.randrange(12), rng.randrange(400))))
    if which < 0.6:
        mark = rng.choice(_MARKS)
        at = body.find(mark, rng.randrange(len(body) + 1))
        if at >= 0:
            return min(len(body), at + rng.choice((0, len(mark), 1)))
    return rng.randrange(len(body) + 1)


def _range(body: bytes, rng: random.Random) -> tuple[int, int]:
    at = _place(body, rng)
    return at, min(len(body), at + rng.choice((1, 2, 4, 8, 30, 200, 2_000)))


def _flip(body: bytes, _: bytes, rng: random.Random) -> bytes:
    made = bytearray(body)
    for _number in range(rng.choice((1, 1, 1, 2, 8))):
        if made:
            made[min(_place(body, rng), len(made) - 1)] ^= 1 << rng.randrange(8)
    return bytes(made)


def _set(body: bytes, _: bytes, rng: random.Random) -> bytes:
    at = _place(body, rng)
    return body[:at] + bytes([rng.choice((0, 255, 128, 127, rng.randrange(256)))]) + body[at + 1 :]


def _delete(body: bytes, _: bytes, rng: random.Random) -> bytes:
    at, to = _range(body, rng)
    return body[:at] + body[to:]


def _insert(body: bytes, _: bytes, rng: random.Random) -> bytes:
    at = _place(body, rng)
    return body[:at] + rng.randbytes(rng.choice((1, 2, 16))) + body[at:]


def _token(body: bytes, _: bytes, rng: random.Random) -> bytes:
    at, token = _place(body, rng), rng.choice(_TOKENS)
    return body[:at] + token + body[at + rng.choice((0, 0, 1, len(token))) :]


def _repeat(body: bytes, _: bytes, rng: random.Random) -> bytes:
    at, to = _range(body, rng)
    return body[:to] + body[at:]


def _truncate(body: bytes, _: bytes, rng: random.Random) -> bytes:
    return body[: _place(body, rng)]


def _behead(body: bytes, _: bytes, rng: random.Random) -> bytes:
    return body[_place(body, rng) :]


def _zero(body: bytes, _: bytes, rng: random.Random) -> bytes:
    at, to = _range(body, rng)
    return body[:at] + rng.choice((b"\0", b"\xff")) * (to - at) + body[to:]


def _swap(body: bytes, _: bytes, rng: random.Random) -> bytes:
    one, two, three = sorted(_place(body, rng) for _ in range(3))
    return body[:one] + body[two:three] + body[one:two] + body[three:]


def _splice(body: bytes, other: bytes, rng: random.Random) -> bytes:
    at = _place(body, rng)
    return body[:at] + other[rng.choice((at, _place(other, rng))) :]


def _overwrite(body: bytes, other: bytes, rng: random.Random) -> bytes:
    """A range with bytes of the other file."""
    at, to = _range(body, rng)
    start = _place(other, rng)
    return body[:at] + other[start : start + to - at] + body[to:]


def _twice(body: bytes, other: bytes, rng: random.Random) -> bytes:
    return body + rng.choice((body, other))


def _header_again(body: bytes, _: bytes, rng: random.Random) -> bytes:
    end = body.find(b"\n") + 1 or min(len(body), rng.choice((4, 16, 200)))
    at = rng.choice((0, end, _place(body, rng)))
    return body[:at] + body[:end] + body[at:]


_MUTATORS: dict[str, Callable[[bytes, bytes, random.Random], bytes]] = {
    "bits flipped": _flip,
    "a byte set": _set,
    "bytes deleted": _delete,
    "bytes inserted": _insert,
    "a token inserted": _token,
    "bytes repeated": _repeat,
    "truncated": _truncate,
    "without its start": _behead,
    "a range zeroed": _zero,
    "two ranges swapped": _swap,
    "spliced with another file": _splice,
    "overwritten by another file": _overwrite,
    "two files in one": _twice,
    "its header again": _header_again,
}
_MILD = ("bits flipped", "bits flipped", "a byte set", "a token inserted")
"""After which much of a file may still be read."""
