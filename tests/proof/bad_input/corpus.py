"""Hostile objects with their required results, and hostile keys."""

import gzip
import json
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from blizzard.config.compressions import COMPRESSIONS
from blizzard.state.dead_letters import Stage
from tests.unit.compressors import NEWER, xz_with_a_dictionary_of_512_mib

MIB = 1 << 20
MOST_RECORD_BYTES = MIB
MOST_FILE_BYTES = 8 * MIB
COMPRESSION_OF = {extension: name for name, extensions in COMPRESSIONS.items() for extension in extensions}
GOOD = b'{"id": "a", "n": 1, "kind": "x"}\n'


@dataclass(frozen=True, slots=True)
class Hostile:
    """A file. `dead`: the stage at which the whole file is refused, and a word of the reason. Otherwise its records
    become rows, except `lines`: these are dead-lettered with this word in the reason; None: Spark's parser may
    decide."""

    name: str
    body: bytes
    dead: tuple[Stage, str] | None = None
    rows: int = 0
    lines: Mapping[int, str | None] | None = None


def _gz(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


def _zst(body: bytes) -> bytes:
    return bytes(pa.compress(body, codec="zstd", asbytes=True))


def _bomb(block: bytes, mib: int) -> bytes:
    """A gzip that expands to so many MiB, generated without holding them in memory."""
    packer, piece = zlib.compressobj(1, wbits=31), block * (MIB // len(block))
    packed = [packer.compress(piece) for _ in range(mib)]
    return b"".join([*packed, packer.flush()])


def _line(value: str, name: str = "n") -> bytes:
    return GOOD + f'{{"id": "b", "{name}": {value}}}\n'.encode() + GOOD


def _each(name: str, column: str, values: Sequence[str], word: str | None = None) -> Hostile:
    """One good line, and one line for each value."""
    lines = "".join(f'{{"id": "b", "{column}": {value}}}\n' for value in values)
    return Hostile(name, GOOD + lines.encode(), rows=1, lines=dict.fromkeys(range(1, len(values) + 1), word))


def _header(flags: int) -> bytes:
    return b"\x1f\x8b\x08" + bytes([flags]) + b"\0\0\0\0\0\xff"


def memory_bombs() -> Iterator[tuple[str, bytes]]:
    """Each expands from less than one MiB to 48 MiB; read in a separate process, whose memory is measured."""
    yield "line-without-end.ndjson.gz", _bomb(b"x" * 1024, 48)
    yield "short-lines.ndjson.gz", _bomb(b"{}\n" * 341 + b"\n", 48)
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, "zstd") as stream:
        for _ in range(48):
            stream.write(bytes(MIB))
    yield "zeros.ndjson.zst", packed.getvalue().to_pybytes()
    for extension, compress in WITH_OTHER_CODECS.items():
        yield f"zeros.ndjson{extension}", compress(bytes(48 * MIB))


WITH_OTHER_CODECS: Mapping[str, Callable[[bytes], bytes]] = {
    ".bz2": NEWER["bzip2"],
    ".xz": partial(lzma.compress, preset=0),
    ".lz4": NEWER["lz4"],
    ".deflate": NEWER["deflate"],
    ".sz": NEWER["snappy"],
    ".snappy": NEWER["snappy of Hadoop"],
}
"""By extension. With little memory: processes whose memory is measured import this."""
COMPRESS: Mapping[str, Callable[[bytes], bytes]] = {".gz": _gz, ".zst": _zst, **WITH_OTHER_CODECS}
_WHOLE = _gz(GOOD * 300)
_DECOMPRESS, _PARSE = Stage.DECOMPRESS, Stage.PARSE


def _containers() -> Iterator[Hostile]:
    yield Hostile("good.ndjson", GOOD * 3, rows=3)
    yield Hostile("good.ndjson.gz", _WHOLE, rows=300)
    yield Hostile("empty.ndjson.gz", b"")
    yield Hostile("truncated.ndjson.gz", _WHOLE[:-20], (_DECOMPRESS, "truncated"))
    yield Hostile("header-alone.ndjson.gz", _WHOLE[:10], (_DECOMPRESS, "truncated"))
    yield Hostile("half-a-header.ndjson.gz", _WHOLE[:5], (_DECOMPRESS, "gzip"))
    yield Hostile("concatenated.ndjson.gz", _gz(GOOD) + _gz(GOOD * 2) + _gz(b""), rows=3)
    yield Hostile("second-member-truncated.ndjson.gz", _gz(GOOD) + _WHOLE[:-20], (_DECOMPRESS, "truncated"))
    yield Hostile("rubbish-behind.ndjson.gz", _gz(GOOD) + b"rubbish", (_DECOMPRESS, "gzip"))
    yield Hostile("zeros-behind.ndjson.gz", _gz(GOOD) + bytes(600), rows=1)
    yield Hostile("wrong-checksum.ndjson.gz", _WHOLE[:-8] + b"\0\0\0\0" + _WHOLE[-4:], (_DECOMPRESS, "gzip"))
    yield Hostile("name-without-end.ndjson.gz", _header(8) + b"a" * 4 * MIB, (_DECOMPRESS, "gzip"))
    yield Hostile("comment-without-end.ndjson.gz", _header(16) + b"a" * 4 * MIB, (_DECOMPRESS, "gzip"))
    yield Hostile("extra-field.ndjson.gz", _header(4) + b"\xff\xff" + bytes(65_535) + _gz(GOOD)[10:], rows=1)
    yield Hostile("unknown-method.ndjson.gz", b"\x1f\x8b\x07" + _WHOLE[3:], (_DECOMPRESS, "gzip"))
    yield Hostile("members-of-nothing.ndjson.gz", _gz(b"") * 20_000)
    yield Hostile("plain-by-a-wrong-name.ndjson.gz", GOOD, (_DECOMPRESS, "gzip"))
    yield Hostile("gzip-by-a-wrong-name.ndjson", _gz(GOOD), (_PARSE, "UTF-8"))
    yield Hostile("gzip-in-gzip.ndjson.gz", _gz(_gz(GOOD)), (_PARSE, "UTF-8"))
    yield Hostile("bomb.ndjson.gz", _bomb(GOOD[:-2] + b" " * 990 + b"}\n", 10), (_DECOMPRESS, "limit max_file_bytes"))
    yield Hostile("line-bomb.ndjson.gz", _bomb(b"x", 4), (_PARSE, "limit max_record_bytes"))
    yield Hostile("good.ndjson.zst", _zst(GOOD * 3), rows=3)
    yield Hostile("truncated.ndjson.zst", _zst(GOOD * 3)[:-3], (_DECOMPRESS, "zstd"))
    yield Hostile("frames.ndjson.zst", _zst(GOOD) + _zst(GOOD), rows=2)
    skipped = b"\x50\x2a\x4d\x18" + struct.pack("<I", 4) + b"skip"
    yield Hostile("skippable-frame.ndjson.zst", skipped + _zst(GOOD), rows=1)
    huge_window = b"\x28\xb5\x2f\xfd\x00" + bytes([(31 - 10) << 3]) + b"\x02\0\0"
    yield Hostile("window-of-2-gib.ndjson.zst", huge_window, (_DECOMPRESS, "zstd"))


def _other_codecs() -> Iterator[Hostile]:
    for extension, compress in WITH_OTHER_CODECS.items():
        word = COMPRESSION_OF[extension]
        whole = compress(GOOD * 300)
        yield Hostile(f"good.ndjson{extension}", whole, rows=300)
        yield Hostile(f"concatenated.ndjson{extension}", compress(GOOD) + compress(b"") + compress(GOOD * 2), rows=3)
        yield Hostile(f"empty.ndjson{extension}", b"")
        yield Hostile(f"truncated.ndjson{extension}", whole[:-5], (_DECOMPRESS, "truncated"))
        yield Hostile(f"rubbish-behind.ndjson{extension}", compress(GOOD) + b"rubbish", (_DECOMPRESS, word))
        yield Hostile(f"plain-by-a-wrong-name.ndjson{extension}", GOOD, (_DECOMPRESS, word))
        yield Hostile(f"gzip-by-a-wrong-name.ndjson{extension}", _WHOLE, (_DECOMPRESS, word))
        bomb = compress((GOOD[:-2] + b" " * 990 + b"}\n") * 10_000)
        yield Hostile(f"bomb.ndjson{extension}", bomb, (_DECOMPRESS, "limit max_file_bytes"))
    yield Hostile("memory-of-512-mib.ndjson.xz", xz_with_a_dictionary_of_512_mib(GOOD), (_DECOMPRESS, "emory"))
    yield Hostile("block-of-2-gib.ndjson.snappy", b"\x80\0\0\0" + bytes(20), (_DECOMPRESS, "at most"))


def _lines() -> Iterator[Hostile]:
    yield Hostile("bom.ndjson", b"\xef\xbb\xbf" + GOOD, rows=1)
    yield Hostile("bom-alone.ndjson", b"\xef\xbb\xbf")
    yield Hostile("two-boms.ndjson", b"\xef\xbb\xbf" * 2 + GOOD * 2, rows=1, lines={0: "not JSON"})
    yield Hostile("utf-16.ndjson", GOOD.decode().encode("utf-16"), (_PARSE, "UTF-8"))
    yield Hostile("crlf.ndjson", GOOD.replace(b"\n", b"\r\n") * 3, rows=3)
    yield Hostile("cr-alone.ndjson", GOOD.replace(b"\n", b"\r") * 2, lines={0: "not JSON"})
    yield Hostile("no-end.ndjson", GOOD + GOOD[:-1], rows=2)
    yield Hostile("blank.ndjson", b"\n \r\n\t\v\f\n\n")
    yield Hostile("nul-bytes.ndjson", GOOD + b"\0\0\0\0\n" + GOOD, rows=2, lines={1: "not JSON"})
    yield Hostile("nul-in-text.ndjson", GOOD + b'{"id": "a\0b"}\n', rows=1, lines={1: "not JSON"})
    yield Hostile("no-utf-8.ndjson", GOOD + b'{"id": "\xff"}\n', (_PARSE, "line 1 at byte 8"))
    yield Hostile("surrogate-bytes.ndjson", b'{"id": "\xed\xa0\x80"}\n', (_PARSE, "UTF-8"))
    yield Hostile("overlong-slash.ndjson", b'{"id": "\xc0\xaf"}\n', (_PARSE, "UTF-8"))
    yield Hostile("line-too-long.ndjson", GOOD + b"x" * (MIB + 1) + b"\n", (_PARSE, "limit max_record_bytes"))
    yield Hostile("no-line-at-all.ndjson", b"x" * 3 * MIB, (_PARSE, "limit max_record_bytes"))
    yield Hostile("line-separators.ndjson", '{"id": "a\u2028b\u2029c\x85"}\n'.encode(), rows=1)


_NUMBERS = ("9" * 19, "9" * 39, "-" + "9" * 400, "9" * 4_999, "1e400", "1e-2147483648", "1" + "0" * 100_000)
_MOMENTS = (
    '"0000-00-00"',
    '"99999-12-31"',
    '"19750"',
    '"-5000"',
    '"20240128"',
    '"2024-1-2"',
    '"2024"',
    '"2024-02-30T25:61:61Z"',
    '"2024-01-28T14:00"',
    '"2024-01-28T24:00:00Z"',
    '"2024-01-28T23:59:60Z"',
    '"2024-01-28T14:00:00.123456789+17:59"',
    '"2024-01-28T14:00:00+18:01"',
    '"0001-01-01T00:00:00+00:01"',
    '"2024-01-28 14:00:00 Europe/Berlin"',
    '"T12:30"',
    '"12:30:45"',
    '" 12:30"',
    '"now"',
    '"epoch"',
    "1706450400",
    "1706450400.5",
    "1706450400000",
    "1706450400000000",
    "18446744073710",
    "-18446744073710",
    "9223372036854775807",
    "253402300800",
)
_OF_EACH_KIND = ("7", "0.5", "-0", "1e3", '"7"', '"a"', '""', "true", "[]", "[7, null]", "{}", '{"x": []}', '{"x": 7}')


def _values() -> Iterator[Hostile]:
    yield Hostile("lone-surrogate.ndjson", _line('"\\ud800"', "kind"), rows=2, lines={1: "surrogate"})
    yield Hostile("surrogate-in-a-name.ndjson", _line("1", "\\udfff"), rows=2, lines={1: "surrogate"})
    for levels in (100, 2_000, 100_000):
        nested = "[" * levels + "]" * levels
        yield Hostile(f"{levels}-levels.ndjson", _line(nested, "other"), rows=2, lines={1: None})
        objects = '{"a":' * levels + "1" + "}" * levels
        yield Hostile(f"{levels}-objects.ndjson", _line(objects, "other"), rows=2, lines={1: None})
        yield Hostile(f"{levels}-openers.ndjson", _line("[" * levels, "other"), rows=2, lines={1: "not JSON"})
    yield Hostile("duplicate-keys.ndjson", GOOD + b'{"id": "a", "id": "b"}\n', rows=1, lines={1: None})
    for column in ("n", "amount"):
        yield _each(f"numbers-{column}.ndjson", column, _NUMBERS)
    yield _each("words.ndjson", "n", ("NaN", "Infinity", "-Infinity"))
    no_numbers = ("-NaN", "Inf", "nan", "+1", "01", "1.", ".5", "0x10", "1_000")
    yield _each("no-numbers.ndjson", "n", no_numbers, "not JSON")
    for column in ("at", "day"):
        yield _each(f"moments-{column}.ndjson", column, _MOMENTS)
    for kind in ("[1]", "[]", '"text"', "17", "true", "null"):
        yield Hostile(f"no-object-{ord(kind[0])}{len(kind)}.ndjson", GOOD + f"{kind}\n".encode(), rows=1, lines={1: ""})
    for column in ("id", "n", "kind", "amount", "ratio", "flag", "day", "at", "tags", "attributes", "place"):
        yield _each(f"kinds-{column}.ndjson", column, _OF_EACH_KIND)
    yield Hostile("no-id.ndjson", GOOD + b'{"n": 1}\n{"id": null}\n', rows=1, lines={1: None, 2: None})
    yield Hostile("two-in-a-line.ndjson", GOOD[:-1] + GOOD * 2, rows=1, lines={0: "not JSON"})
    yield Hostile("templates.ndjson", b'{"id": "${HOME} {0.__class__} %s%n {{7*7}} $(id)"}\n', lines={0: None})
    folders = (
        "../../outside/canary",
        "/etc/passwd",
        "..",
        ".",
        "",
        "a\nb",
        "\0",
        "a=b/c=d",
        "x" * 5_000,
        "\u202e",
        " ",
    )
    kinds = "".join(json.dumps({"id": "a", "kind": kind}) + "\n" for kind in folders)
    yield Hostile("folders.ndjson", kinds.encode(), rows=len(folders) - 1, lines={6: None})


def _texts() -> Iterator[Hostile]:
    """For the text format."""
    yield Hostile("lines.txt", b"{\n[1]\n\xef\xbb\xbfbom\n\0\x1b[2J\n" + "\u2028\x85\u202e\n".encode(), rows=5)
    yield Hostile("blanks.txt", b"\n \r\n\t\v\f\n\n", rows=4)
    yield Hostile("bom-alone.txt", b"\xef\xbb\xbf", rows=1)
    yield Hostile("empty.txt", b"")
    yield Hostile("ends.txt", b"a\rb\r\r\nc\r", rows=2)
    no_utf_8 = b"good\n\xff\n\xed\xa0\x80\n\xc0\xaf\ngood"
    yield Hostile("no-utf-8.txt", no_utf_8, rows=2, lines=dict.fromkeys((1, 2, 3), "not UTF-8 at byte 0"))
    yield Hostile("utf-16.txt", "ab\n".encode("utf-16-le"), rows=2)
    yield Hostile("gzip-by-a-wrong-name.txt", _header(0), lines={0: "not UTF-8"})
    yield Hostile("no-utf-8.txt.zst", _zst(no_utf_8), rows=2, lines=dict.fromkeys((1, 2, 3), "not UTF-8"))
    yield Hostile("truncated.txt.gz", _WHOLE[:-20], (_DECOMPRESS, "truncated"))
    yield Hostile("line-too-long.txt", b"a\n" + b"\xff" * (MIB + 1) + b"\n", (_PARSE, "limit max_record_bytes"))
    yield Hostile("line-bomb.txt.gz", _bomb(b"x", 4), (_PARSE, "limit max_record_bytes"))
    yield Hostile("bomb.txt.gz", _bomb(b"x" * 1023 + b"\n", 10), (_DECOMPRESS, "limit max_file_bytes"))


CONTAINERS: tuple[Hostile, ...] = (*_containers(), *_other_codecs())
LINES: tuple[Hostile, ...] = tuple(_lines())
VALUES: tuple[Hostile, ...] = tuple(_values())
FILES: tuple[Hostile, ...] = (*CONTAINERS, *LINES, *VALUES)
TEXTS: tuple[Hostile, ...] = tuple(_texts())

KEYS: tuple[str, ...] = (
    'a\n{"event": "forged"}.ndjson',
    "a\r\nb.ndjson",
    "a\x1b[2J\x1b[31m.ndjson",
    "a\u2028b\x85c.ndjson",
    "a\u202egpj.ndjson",
    "a\u200b\ufeff.ndjson",
    "a\0b.ndjson",
    "\x7f\x80\x9f.ndjson",
    "../outside/canary.ndjson",
    "a/../../outside/canary.ndjson",
    "..",
    "./a.ndjson",
    "a/./b.ndjson",
    "a//b.ndjson",
    "//a.ndjson",
    "/a.ndjson",
    "/etc/hostname",
    "a\\..\\b.ndjson",
    "%2e%2e%2foutside%2fcanary.ndjson",
    "a%00b.ndjson",
    "${HOME}/$(id)/`id`/{0.__class__}/%s%n.ndjson",
    "'; DROP TABLE x; --.ndjson",
    "kind=..%2F..%2Foutside/a.ndjson",
    "_blizzard/events_landing_checkpoint.json",
    "_delta_log/00000000000000000000.json",
    ".blizzard-tmp-a.ndjson",
    "é" * 508 + ".ndjson",
    "x" * 1_017 + ".ndjson",
    "d/" * 508 + "a.ndjson",
    "\U0001f608.ndjson",
    " .ndjson",
    "a+b c%20d.ndjson",
)
"""All of them are valid keys of S3 objects."""

NO_KEYS: tuple[str, ...] = ("", "\ud800.ndjson", "x" * 1_025, "é" * 513)
"""Names that no object can have, but that a segment or a caller may contain."""
