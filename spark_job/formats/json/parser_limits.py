"""Limits of the two JSON parsers: what Jackson (Spark) refuses of valid JSON, and what RapidJSON (Arrow) accepts of
invalid JSON. The checks cost next to nothing for ordinary data."""

from collections.abc import Iterator

import orjson

from spark_job.formats.search import matches

# Values that are certain to be below Jackson's limits.
_LONG_LINE = 1_000
_NUMBER_CHARS = 1_000
_LEVELS = 1_000
_LONG_NAME_LINE = 50_000
_LONG_TEXT_LINE = 20_000_000
_NAME_CHARS = 25_000

_STEP = 32
_NUMBER_BYTES = b"+-.0123456789Ee"
_IN_NUMBER = bytes(ord("0") if byte in _NUMBER_BYTES else ord(" ") for byte in range(256))
_LONG_NUMBER = b"0" * _NUMBER_CHARS
_LONG_NUMBER_SAMPLE = b"0" * (_NUMBER_CHARS // _STEP)
# At most 38 digits with an exponent of 0 to -37 fit into 256 bits at any scale up to 38. Escapes may stand for digits.
_WILD_DECIMAL = r"[0-9.][eE](\+?[0-9]+|-0*(3[89]|[4-9][0-9]|[1-9][0-9]{2,}))[ \t\r\n,}\]\"]|[0-9]{39}|\\u00[0-7]"
_NO_NUMBER = r"(-NaN|Inf)[ \t\r]*[,}\]]"


class ParserLimits:
    """`by_digits`: some decimals are parsed digit by digit. Arrow then trusts exponents and lengths, and hostile ones
    make it read memory outside its buffers."""

    def __init__(self, *, by_digits: bool) -> None:
        self._by_digits = by_digits

    def allow(self, block: bytes) -> bool:
        """Whether each line of a block is within the limits; False if the lines have to be checked one by one."""
        if 0 in block or _has_inf_or_nan(block):
            return False
        if self._by_digits and matches(_WILD_DECIMAL, block):
            return False
        any_long = False
        for start, end in _long_lines(block):
            any_long = True
            if end - start >= _LONG_NAME_LINE or _opening_brackets(block, start, end) >= _LEVELS:
                return False
        return not (any_long and _has_long_number(block))

    def allow_line(self, line: bytes) -> bool:
        """Whether a line is within Jackson's limits, without a zero byte and without a number that only RapidJSON
        accepts."""
        if 0 in line or (self._by_digits and matches(_WILD_DECIMAL, line)):
            return False
        if _has_inf_or_nan(line) and not _is_json(line):
            return False
        if len(line) < _LONG_LINE:
            return True
        if len(line) >= _LONG_TEXT_LINE or _opening_brackets(line, 0, len(line)) >= _LEVELS or _has_long_number(line):
            return False
        return len(line) < _LONG_NAME_LINE or _has_short_names(line)


def _has_inf_or_nan(text: bytes) -> bool:
    """Whether there may be an Inf or -NaN, which only RapidJSON accepts as numbers, also for keys without a column."""
    if (b"I" in text and b"Inf" in text) or (b"N" in text and b"-NaN" in text):
        return matches(_NO_NUMBER, text)
    return False


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _has_long_number(text: bytes) -> bool:
    """Whether there is a run of bytes that could be a number of _NUMBER_CHARS; it may be part of a string."""
    sample = text[::_STEP].translate(_IN_NUMBER)
    at = sample.find(_LONG_NUMBER_SAMPLE)
    while at >= 0:
        around = text[max(at - 1, 0) * _STEP : (at + 1) * _STEP + _NUMBER_CHARS]
        if _LONG_NUMBER in around.translate(_IN_NUMBER):
            return True
        at = sample.find(_LONG_NUMBER_SAMPLE, at + 1)
    return False


def _long_lines(block: bytes) -> Iterator[tuple[int, int]]:
    start = 0
    while len(block) - start >= _LONG_LINE:
        newline = block.rfind(b"\n", start, start + _LONG_LINE)
        if newline < 0:
            newline = block.find(b"\n", start + _LONG_LINE)
            end = newline if newline >= 0 else len(block)
            yield start, end
            newline = end
        start = newline + 1


def _opening_brackets(text: bytes, start: int, end: int) -> int:
    if end - start < 2 * _LEVELS:
        return 0
    return text.count(b"{", start, end) + text.count(b"[", start, end)


def _has_short_names(line: bytes) -> bool:
    try:
        pending = [orjson.loads(line)]
    except orjson.JSONDecodeError:
        return False
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if max(map(len, value), default=0) > _NAME_CHARS:
                return False
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return True
