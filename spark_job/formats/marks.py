"""What a file is, by its first bytes: for the reason of one that cannot be read, and for `blizzard init`."""

import codecs
import re
from collections.abc import Collection, Mapping

from blizzard.config.compressions import ZIP

FIRST_BYTES = 512
"""Of a file, enough for each mark."""

READ: Mapping[bytes, str] = {b"PAR1": "parquet", b"Obj\x01": "avro", b"ORC": "orc"}
"""Formats that Blizzard reads."""
COMPRESSED: Mapping[bytes, str] = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
    b"\xff\x06\x00\x00sNaPpY": "snappy",
}
"""First bytes of compressed files. Those of zip are not here, since Office documents begin with them, too."""
_EXTENSIONS = {"gzip": ".gz", "zstd": ".zst", "bzip2": ".bz2", "xz": ".xz", "lz4": ".lz4", "snappy": ".snappy"}
_OTHERS: Mapping[bytes, str] = {
    b"PK\x03\x04": "an Office document, or a zip by another name",
    b"%PDF": "PDF",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"SQLite format 3": "an SQLite database",
    b"\x89HDF": "HDF5",
    b"\x7fELF": "a program",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a rar archive",
    b"ARROW1": "an Arrow file",
}
_TAR_MARK, _TAR_AT = b"ustar", 257
_ZIP = b"PK\x03\x04"
_HTML = ("<!doctype html", "<html")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ZEROS = {"utf-16-le": [False, True] * 2, "utf-16-be": [True, False] * 2}
"""Which of the first bytes are 0."""
_JSON = re.compile(r'\s*(\[\s*)?\{\s*"')
_PLAIN = re.compile(r"[ -~\s]{8}")
_READ_JSON = {"ndjson", "json"}
_TELL_ENCODING = {"csv", "json"}
"""Formats whose own reason names the encoding of a byte order mark."""


def foreign(data: bytes) -> str | None:
    """What begins so, if nobody reads it."""
    found = next((name for mark, name in _OTHERS.items() if data.startswith(mark)), None)
    return "a tar archive" if found is None and data.startswith(_TAR_MARK, _TAR_AT) else found


def is_html(text: str) -> bool:
    return text.lstrip()[:14].lower().startswith(_HTML)


def is_no_json(data: bytes) -> bool:
    """Whether a file that begins so is of another kind than JSON, and no JSON with a broken beginning."""
    return (data[:1] not in (b"{", b"[") or b"\0" in data[:2]) and likeness(data, ("ndjson",), "none") is not None


def likeness(data: bytes, formats: Collection[str], compression: str) -> str | None:
    """What else than a file of these formats, of which ZIP may be one, begins so, and what to do. `compression`: by
    which `data` is compressed as the source says."""
    if data.startswith(_ZIP):
        return None if ZIP in formats else f"it begins like a zip or an Office document: {_named('.zip', ZIP)}"
    if (what := foreign(data)) is not None:
        return f"it begins like {what}"
    packed = next((name for mark, name in COMPRESSED.items() if data.startswith(mark)), None)
    if packed == compression:
        return None
    if packed is not None:
        return f"it begins like a {packed} file: {_named(_EXTENSIONS[packed], packed)}"
    other = next((name for mark, name in READ.items() if data.startswith(mark)), None)
    if other is not None and other not in formats:
        return f"it begins like a file of the format {other}"
    return _like_text(data, formats, compression)


def _named(extension: str, compression: str) -> str:
    return f"name it {extension}, or set `compression: {compression}`"


def _like_text(data: bytes, formats: Collection[str], compression: str) -> str | None:
    if data.startswith(_UTF16):
        return None if _TELL_ENCODING & {*formats} else "it begins like text in UTF-16"
    for encoding, zeros in _ZEROS.items():
        if [byte == 0 for byte in data[:4]] == zeros:
            return f"it begins like text in UTF-16 without a byte order mark, {encoding}"
    text = data.removeprefix(codecs.BOM_UTF8).decode("ascii", errors="replace")
    if is_html(text):
        return "it begins like a page of HTML"
    if text.startswith("<?xml") and "xml" not in formats:
        return "it begins like XML"
    if _JSON.match(text) and not _READ_JSON & {*formats}:
        return "it begins like JSON"
    if compression != "none" and _PLAIN.match(text):
        return "it begins like text that is not compressed: name it without the extension, or set `compression: none`"
    return None
