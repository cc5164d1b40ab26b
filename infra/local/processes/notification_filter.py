"""The filters of bucket notifications."""

from urllib.parse import quote

NOT_ENCODED = "/!-_.*'()"
"""Besides letters and digits."""


def encoded_key(key: str) -> str:
    """A key, or the beginning of one, as filters name it: `date=` matches nothing, `date%3D` does."""
    return quote(key, safe=NOT_ENCODED)
