"""Generators of the benchmarks' records, as lines of JSON. The same seed gives the same lines."""

import random
import re
from collections.abc import Callable, Iterator

EVENT_SCHEMA = "id STRING NOT NULL, n BIGINT, timestamp BIGINT, value DOUBLE, payload STRING"
"""Five columns, about 140 bytes a record."""

NESTED_SCHEMA = f"{EVENT_SCHEMA}, origin STRUCT<host: STRING, port: BIGINT>, tags ARRAY<STRING>"
"""The same with a struct and an array."""

WORDS = tuple(
    re.findall(
        r"\w+",
        "winter storm polar front drifting snow frozen river north wind heavy clouds clear night early thaw deep ice "
        "open water grey light long shadow first frost late melt high ridge steady gale low sun blue hour still air",
    )
)

_STRUCT = "STRUCT<a: STRING, b: BIGINT, c: STRUCT<d: DOUBLE, e: STRING>>"
_KINDS: tuple[tuple[str, str, int], ...] = (
    ("s", "STRING", 60),
    ("l", "BIGINT", 30),
    ("d", "DOUBLE", 30),
    ("m", "DECIMAL(18,4)", 15),
    ("t", "TIMESTAMP", 15),
    ("y", "DATE", 15),
    ("b", "BOOLEAN", 10),
    ("o", _STRUCT, 10),
    ("a", "ARRAY<BIGINT>", 5),
    ("w", "ARRAY<STRING>", 5),
    ("p", "MAP<STRING, STRING>", 3),
)
WIDE_COLUMNS = [(f"{letter}{index:02}", kind) for letter, kind, count in _KINDS for index in range(count)]
WIDE_SCHEMA = "id STRING NOT NULL, n BIGINT, " + ", ".join(f"{name} {kind}" for name, kind in WIDE_COLUMNS)
"""200 columns: `id`, `n` and 198 of all types."""
NULL_SHARE = 0.05

Lines = Callable[[random.Random, int, int], Iterator[bytes]]
"""Takes the generator of random numbers, the number of the first record, and the count; gives lines without LF. Column
`n` is the record's number, so the sum of `n` shows whether each record is there once."""


def event_lines(rng: random.Random, first: int, count: int) -> Iterator[bytes]:
    bits, pick = rng.getrandbits, rng.random
    words, size = WORDS, len(WORDS)
    for n in range(first, first + count):
        r = bits(64)
        payload = f"{words[r % size]} {words[r // 64 % size]} {words[r // 4096 % size]} {r:016x}"
        yield (
            f'{{"id":"{bits(64):016x}-{n:08x}","n":{n},"timestamp":{1_706_450_400_000 + n},'
            f'"value":{pick() * 1000:.6f},"payload":"{payload}"}}'
        ).encode()


def nested_lines(rng: random.Random, first: int, count: int) -> Iterator[bytes]:
    """The records of `event_lines` with more columns. The array has 0 to 3 elements."""
    size = len(WORDS)
    for n, line in enumerate(event_lines(rng, first, count), first):
        tags = ",".join(f'"{WORDS[(n // 4 + at) % size]}"' for at in range(n % 4))
        more = f',"origin":{{"host":"{WORDS[n % size]}-{n % 97}","port":{1024 + n % 60_000}}},"tags":[{tags}]}}'
        yield line[:-1] + more.encode()


def wide_lines(rng: random.Random, first: int, count: int) -> Iterator[bytes]:
    columns = [(name, _VALUES[name[0]]) for name, _ in WIDE_COLUMNS]
    for n in range(first, first + count):
        parts = [f'"id":"{n:012x}","n":{n}']
        for name, value in columns:
            fate = rng.random()
            if fate >= NULL_SHARE:
                parts.append(f'"{name}":{value(rng)}')
            elif fate < NULL_SHARE / 2:  # otherwise the field is missing
                parts.append(f'"{name}":null')
        yield ("{" + ",".join(parts) + "}").encode()


def _text(rng: random.Random) -> str:
    r = rng.getrandbits(32)
    escaped = ("", "", "", "\\n", '\\"', "\\u00e9", "é", "𝄞")[r >> 29]
    return f'"{WORDS[r % len(WORDS)]}{escaped}{r % 9973}"'


def _day(rng: random.Random) -> str:
    return f"20{rng.randrange(10, 30)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"


def _time(rng: random.Random) -> str:
    r = rng.getrandbits(40)
    zone = ("Z", "+02:00", "-05:30", "Z")[r >> 38]
    return f'"{_day(rng)}T{r % 24:02}:{r // 32 % 60:02}:{r // 2048 % 60:02}.{r % 1000:03}{zone}"'


def _long(rng: random.Random) -> str:
    return str(rng.getrandbits(rng.randrange(1, 63)) - 1_000)


def _double(rng: random.Random) -> str:
    return repr(rng.uniform(-1e6, 1e6))


def _struct(rng: random.Random) -> str:
    return f'{{"a":{_text(rng)},"b":{_long(rng)},"c":{{"d":{_double(rng)},"e":{_text(rng)}}}}}'


def _list_of(value: Callable[[random.Random], str]) -> Callable[[random.Random], str]:
    return lambda rng: f"[{','.join(value(rng) for _ in range(rng.randrange(4)))}]"


def _map(rng: random.Random) -> str:
    return "{" + ",".join(f'"k{key}":{_text(rng)}' for key in range(rng.randrange(4))) + "}"


_VALUES: dict[str, Callable[[random.Random], str]] = {
    "s": _text,
    "l": _long,
    "d": _double,
    "m": lambda rng: f"{rng.randrange(-(10**9), 10**9)}.{rng.randrange(10**4):04}",
    "t": _time,
    "y": lambda rng: f'"{_day(rng)}"',
    "b": lambda rng: ("true", "false")[rng.getrandbits(1)],
    "o": _struct,
    "a": _list_of(_long),
    "w": _list_of(_text),
    "p": _map,
}


def doubtful(line: bytes) -> bytes:
    """The line with text for the DOUBLE `value`. Spark accepts some texts as a DOUBLE, so only Spark's parser can
    refuse it."""
    return line.replace(b'"value":', b'"value":"N/A","was":', 1)


def broken(line: bytes, kind: int) -> bytes:
    """The line truncated, with a value of the wrong type, or not JSON, by `kind` modulo 3."""
    if kind % 3 == 0:
        return line[: len(line) // 2]
    return line.replace(b'"n":', b'"n":"none",":":', 1) if kind % 3 == 1 else b"-- " + line[:40]
