"""Whether bytes are text, and in which encoding."""

import codecs

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))
_MAX_CONTROL_SHARE = 0.001
_NOT_IN_CP1252 = bytes([0x81, 0x8D, 0x8F, 0x90, 0x9D])


def encoding_of(data: bytes) -> str | None:
    """As Python names it; None for what is no text. Of bytes that are not UTF-8, the encoding is a guess."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name
    if b"\0" in data:
        return _utf_16(data)
    if len(data) - len(data.translate(None, _CONTROL)) > len(data) * _MAX_CONTROL_SHARE:
        return None
    if text_in(data, "utf-8") is not None:
        return "utf-8"
    return "latin-1" if data.translate(None, _NOT_IN_CP1252) != data else "cp1252"


def _utf_16(data: bytes) -> str | None:
    """Without a mark: most of the characters that any text has, blanks and digits among them, have a zero byte."""
    even, odd = data[::2].count(0), data[1::2].count(0)
    if max(even, odd) < len(data) * 0.3 or min(even, odd) > len(data) * 0.05:
        return None
    name = "utf-16-le" if odd > even else "utf-16-be"
    return name if text_in(data, name) is not None else None


def text_in(data: bytes, encoding: str) -> str | None:
    """The text, without a byte-order mark and without a character that is cut off at the end. None: it has another
    encoding."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(data).removeprefix("\ufeff")
    except UnicodeError:
        return None


def whole_lines(data: bytes, encoding: str, *, is_whole: bool) -> str | None:
    """The text up to the last line end, unless the file ends there."""
    text = text_in(data, encoding)
    if text is None or is_whole or "\n" not in text:
        return text
    return text[: text.rindex("\n") + 1]
