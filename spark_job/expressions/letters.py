"""Small and capital letters as Spark has them, which knows Unicode 16; Python knows an older one.

Of the letters that came since Unicode 14 only their effect on a capital sigma next to them is not known."""

_PAIRS = {
    0x1C89: 0x1C8A,
    0xA7CB: 0x264,
    0xA7CC: 0xA7CD,
    0xA7DA: 0xA7DB,
    0xA7DC: 0x19B,
    **{code: code + 0x20 for code in range(0x10D50, 0x10D66)},
}
"""From capital letters to small ones."""
_CAPITALS = {small: capital for capital, small in _PAIRS.items()}


def lower(text: str) -> str:
    return text.lower().translate(_PAIRS)


def upper(text: str) -> str:
    return text.upper().translate(_CAPITALS)
