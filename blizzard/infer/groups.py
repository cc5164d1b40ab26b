"""Which files belong together, by their names."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from blizzard.config.compressions import COMPRESSIONS
from blizzard.paths.partition import partition_of
from blizzard.storage.base import ObjectInfo

MAX_PLACES = 20
"""Folders below the source that may be sources of their own. With more, they are taken for one source's."""
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9_]{0,9}\Z")
_VARIABLE = re.compile(r".*=.*|[0-9].*|.*[0-9]{4,}.*|.*[*?\[\]{},].*")
"""Folders of partitions, dates and ids; and such as no pattern can name simply."""
_COMPRESSED = tuple(end for ends in COMPRESSIONS.values() for end in ends)


@dataclass(slots=True)
class Group:
    """Files of one place with one extension. `place`: the folder below the source, without a `/` at its end; empty for
    the source itself."""

    place: str
    suffix: str
    files: list[ObjectInfo] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(info.size for info in self.files)

    @property
    def pattern(self) -> str:
        """Of its files, below the place. Without an extension, all but hidden files."""
        return f"**/*{self.suffix}" if self.suffix else "**/[!._]*"


def is_hidden(key: str) -> bool:
    """Of `_SUCCESS`, `.part.crc` and what lies in `_temporary`: not data by convention."""
    return any(part.startswith(("_", ".")) and "=" not in part for part in key.split("/"))


def suffix_of(key: str) -> str:
    """The extension, with that of its compression: `.csv.gz`. Empty without one."""
    name = key.rpartition("/")[2]
    packed = next((name[-len(end) :] for end in _COMPRESSED if name.lower().endswith(end)), "")
    stem = name[: len(name) - len(packed)]
    found = _EXTENSION.search(stem)
    return (found[0] if found and found.start() else "") + packed


def grouped(files: Iterable[ObjectInfo]) -> list[Group]:
    """The largest first."""
    found: dict[tuple[str, str], Group] = {}
    listed = [info for info in files if not is_hidden(info.key)]
    places = _places(listed)
    for info in listed:
        key = places.get(partition_of(info.key).partition("/")[0], ""), suffix_of(info.key)
        found.setdefault(key, Group(*key)).files.append(info)
    return sorted(found.values(), key=lambda group: (-group.bytes, group.place, group.suffix))


def _places(files: Sequence[ObjectInfo]) -> Mapping[str, str]:
    """The first folders that may be sources of their own."""
    first = {partition_of(info.key).partition("/")[0] for info in files} - {""}
    if len(first) > MAX_PLACES or any(_VARIABLE.fullmatch(folder) for folder in first):
        return {}
    return {folder: folder for folder in first}
