"""Random changes to good documents, and the reduction of a bad one to the smallest that still fails."""

import json
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

from tests.proof.bad_input.corpus import COMPRESS, WITH_OTHER_CODECS

SHRINK_SECS = 20.0

_DEEP = {"<100 levels>": 100, "<2000 levels>": 2_000}
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    2**64,
    10**30,
    10**300,
    10**4_000,
    1e308,
    5e-324,
    float("inf"),
    float("-inf"),
    float("nan"),
    "",
    " ",
    "x" * 2_000,
    "é" * 600,
    "\ud800",
    "\udfffa",
    "\0",
    "a\nb",
    "a\r\n{}",
    "\x1b[2J",
    "\u202e",
    "\u2028",
    "..",
    "../../outside/canary",
    "/",
    "//",
    "a//b",
    "%2e%2e%2f",
    "%zz",
    "%ff",
    "${HOME}",
    "$${",
    "{0.__class__}",
    "%s%n",
    "{{7*7}}",
    "null",
    "NaN",
    "9999-12-31T23:59:59.999999Z",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "0000-00-00",
    "2024-02-30",
    "2024-W01-1",
    "1e400",
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"__proto__": {}},
    "<100 levels>",
    "<2000 levels>",
    *range(2, 9),
)
TOKENS: tuple[bytes, ...] = (
    b"\0",
    b"\n",
    b"\r\n",
    b"\r",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"\\ud800",
    b"\\u0000",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"}{",
    b"{}",
    b"[" * 100,
    b"{" * 2_000,
    b'{"a":' * 1_100,
    b"9" * 40,
    b"9" * 5_000,
    b"-",
    b"e400",
    b"E-99999",
    b"NaN",
    b"Infinity",
    b"-NaN",
    b"Inf",
    b"null",
    b"true",
    b"&a ",
    b"*a",
    b"!!python/name:os.system ",
    b"<<: ",
    b"- ",
    b": ",
    b"? ",
    b"%YAML 1.1\n---\n",
    b"---\n",
    b"...\n",
    b"|\n",
    b"#",
    b"\t",
    b"${",
    b"$${",
    b"\x1f\x8b\x08",
    b"\xe2\x80\xa8",
    b"\xe2\x80\xae",
    b"../",
    b"0x" + b"f" * 40,
    b"'",
    b"`",
    b"@",
)


def text_of(value: Any) -> str:
    """JSON with things that Python's encoder does not write, such as 2,000 levels."""
    text = json.dumps(value)
    for name, levels in _DEEP.items():
        text = text.replace(f'"{name}"', "[" * levels + "]" * levels)
    return text


def changed_document(document: Any, rng: random.Random) -> str:
    """A JSON document with one to three changed values or names; sometimes with a duplicate name."""
    changed = json.loads(json.dumps(document))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        changed = _changed(changed, rng)
    text = text_of(changed)
    if rng.random() < 0.15:
        at = [position for position, char in enumerate(text) if char == "{"]
        names = [part for part in json.dumps(document).split('"') if part.isidentifier()]
        if at and names:
            cut = rng.choice(at) + 1
            text = f'{text[:cut]}"{rng.choice(names)}": {text_of(rng.choice(VALUES))}, {text[cut:]}'
    return text


def _changed(value: Any, rng: random.Random) -> Any:
    """One place of the document, chosen on the way down."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        name = rng.choice(list(value))
        what = rng.random()
        if what < 0.1:
            return {key: inner for key, inner in value.items() if key != name}
        if what < 0.15:
            return {(str(rng.choice(VALUES)) if key == name else key): inner for key, inner in value.items()}
        return {**value, name: _changed(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        what = rng.random()
        if what < 0.1:
            return value[:at] + value[at + 1 :]
        if what < 0.15:
            return value + value[at : at + 1] * rng.choice((1, 2, 50))
        return [*value[:at], _changed(value[at], rng), *value[at + 1 :]]
    if isinstance(value, str) and value and rng.random() < 0.3:
        at = rng.randrange(len(value) + 1)
        return value[:at] + str(rng.choice(VALUES)) + value[at:]
    return rng.choice(VALUES)


def changed_bytes(body: bytes, rng: random.Random) -> bytes:
    """One to four cuts, repetitions, exchanged bytes, or hostile tokens."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(body) + 1)
        to = min(len(body), at + rng.choice((1, 2, 8, 100)))
        body = rng.choice(
            (
                lambda body, at, to: body[:at] + body[to:],
                lambda body, at, to: body[:to] + body[at:],
                lambda body, at, to: body[:at],
                lambda body, at, to: body[:at] + bytes([rng.randrange(256)]) + body[at + 1 :],
                lambda body, at, to: body[:at] + rng.choice(TOKENS) + body[at:],
                lambda body, at, to: body[:at] + rng.choice(TOKENS) + body[to:],
            )
        )(body, at, to)
    return body


def changed_file(records: Iterable[Any], rng: random.Random) -> tuple[str, bytes]:
    """Extension and bytes of a file: lines with changed values, changed bytes, and changed compressed bytes."""
    lines = []
    for record in records:
        line = changed_document(record, rng) if rng.random() < 0.5 else json.dumps(record)
        lines.append(line.encode(errors="surrogatepass"))
    body = rng.choice((b"\n", b"\n", b"\n", b"\r\n", b"\n\n")).join(lines) + rng.choice((b"", b"\n"))
    return packed(changed_bytes(body, rng) if rng.random() < 0.5 else body, rng)


def packed(body: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Compressed or not, in one or two members or frames, and sometimes changed afterwards."""
    extension = rng.choice(("", "", ".gz", ".gz", ".zst", *WITH_OTHER_CODECS))
    if not extension:
        return extension, body
    cut = rng.randrange(len(body) + 1)
    compress = COMPRESS[extension]
    whole = b"".join(compress(part) for part in rng.choice(((body,), (body[:cut], body[cut:]))))
    return extension, changed_bytes(whole, rng) if rng.random() < 0.4 else whole


def smallest(body: bytes, is_bad: Callable[[bytes], bool], secs: float = SHRINK_SECS) -> bytes:
    """The smallest part of a bad body that still fails, as far as the time allows."""
    until = time.monotonic() + secs
    size = max(1, len(body) // 2)
    while size:
        at = 0
        while at < len(body) and time.monotonic() < until:
            shorter = body[:at] + body[at + size :]
            if is_bad(shorter):
                body = shorter
            else:
                at += size
        size //= 2
    return body
