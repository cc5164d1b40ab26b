"""Which files of a Delta log are its newest Delta checkpoint."""

import re
from collections.abc import Iterable

from blizzard.state.delta_log import LOG_FOLDER

_FORMS = r"parquet|[0-9]{10}\.([0-9]{10})\.parquet|[^.]+\.(?:json|parquet)"
_CHECKPOINT = re.compile(rf"([0-9]{{20}})\.checkpoint\.(?:{_FORMS})")


def newest_checkpoint(keys: Iterable[str]) -> tuple[int, list[str]]:
    """Version and files of the newest complete checkpoint; -1 and none if there is none."""
    by_version: dict[int, list[tuple[str, str | None]]] = {}
    for key in keys:
        if match := _CHECKPOINT.fullmatch(key.removeprefix(LOG_FOLDER)):
            by_version.setdefault(int(match[1]), []).append((key, match[2]))
    for version in sorted(by_version, reverse=True):
        whole = [key for key, parts in by_version[version] if parts is None]
        if whole:
            return version, whole[:1]
        parts = [key for key, count in by_version[version] if count and int(count) == len(by_version[version])]
        if len(parts) == len(by_version[version]):
            return version, parts
    return -1, []
