"""A data file as an `add` action of Delta's log."""

import unicodedata
from collections.abc import Mapping
from typing import Any

from spark_job.write.data_file import DataFile

_UNESCAPED_IN_PATHS = frozenset("/_-!.~'()*@&=+$,;")
"""Characters, besides letters and digits, that Hadoop does not escape in the path of a URI."""


def add_fields(file: DataFile) -> Mapping[str, Any]:
    return {
        "path": url_path(file.path),
        "partitionValues": partition_values(file),
        "size": file.size,
        "modificationTime": modified_ms(file),
        "dataChange": True,
        "stats": file.stats,
    }


def partition_values(file: DataFile) -> dict[str, str | None]:
    """An empty text is null, as in Hive."""
    return {name: value or None for name, value in file.partition_values.items()}


def modified_ms(file: DataFile) -> int:
    return round(file.modified_ts * 1000)


def url_path(path: str) -> str:
    """A path as in Delta's log: escaped as Hadoop escapes the path of a URI. `urllib.parse.quote` escapes other
    characters: all non-ASCII ones, of which Hadoop escapes only spaces and control characters."""
    return "".join(map(_url_char, path))


def _url_char(char: str) -> str:
    if char in _UNESCAPED_IN_PATHS or (char.isascii() and char.isalnum()):
        return char
    if char.isascii() or unicodedata.category(char) in ("Zs", "Zl", "Zp", "Cc"):
        return "".join(f"%{byte:02X}" for byte in char.encode())
    return char
